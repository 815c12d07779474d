"""InfluxDB 1.x, the open-source server."""
