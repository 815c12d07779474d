"""A run read back: by one scan of the store, by KairosDB's query API, and on every replica."""
