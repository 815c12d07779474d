"""KairosDB on its store, which is Cassandra or ScyllaDB."""
