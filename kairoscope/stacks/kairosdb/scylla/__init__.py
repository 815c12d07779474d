"""ScyllaDB's own: its options, a server that the user brings, its REST API, metrics and shards."""
