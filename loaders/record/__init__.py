"""What a loader records: latencies, counts, files."""
