"""Finished runs beside each other: two sides (`sides`), and over time (`history`, `trend`).

Pure functions of run folders, as the verdict is of one: no server, no machine, no clock.
"""
