"""Points that KairosDB gave up: what its hosts say of them, and which of them are of a run."""
