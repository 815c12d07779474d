"""What a run records beside the load: the store's own latencies, queue depth, processes."""
