"""The local broker as its clients see it, end to end."""
