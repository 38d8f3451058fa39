"""The process that owns the store."""
