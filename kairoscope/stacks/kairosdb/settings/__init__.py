"""What KairosDB and its store are set to: a plan's arithmetic, and whether KairosDB took it."""
