"""What a run captures of KairosDB and its store beside its load."""
