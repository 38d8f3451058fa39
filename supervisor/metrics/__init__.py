"""What the node tells of itself as metrics: one table over the status, read by Prometheus and by OpenTelemetry."""
