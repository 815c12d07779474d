"""One run: load, captures and read-back, into a run folder."""
