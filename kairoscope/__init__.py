"""Kairoscope: deploy KairosDB on ScyllaDB, load it, prove what it sustains, operate it."""

__version__ = "0.1.0"
