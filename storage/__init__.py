"""What is kept: the queues of Tier 1, behind a small engine protocol."""
