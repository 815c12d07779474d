"""Graphite: carbon-cache and its whisper files."""
