"""The node's history: a sample a minute, kept on disk, and questions about it."""
