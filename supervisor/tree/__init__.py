"""The supervision tree and its loop: children, heartbeats, restarts, the figures of ``bascule status``."""
