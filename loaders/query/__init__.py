"""Queries beside the load, and what their answers are worth."""
