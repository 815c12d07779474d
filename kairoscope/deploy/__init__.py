"""Brings a target to a plan, and keeps it so: the one playbook, `verify`, and day two."""
