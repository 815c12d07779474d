"""Sends what is due, and accounts for what became of it."""
