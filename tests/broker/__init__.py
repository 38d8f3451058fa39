"""The local broker as clients see it, on real nodes."""
