"""Servers that run, KairosDB's and the store's: how they are asked, and what they say they are."""
