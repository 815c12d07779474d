"""A target and a stack that are there to show that there may be others.

All of them is in this folder. They are registered by a line each, as others would be.
"""
