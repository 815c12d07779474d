"""VictoriaMetrics, the single-node server."""
