"""What the node tells of itself as metrics: one table over the status, written as Prometheus reads it."""
