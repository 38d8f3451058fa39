"""What is wrong with a node and where it runs, and what would cure it: one verdict a line."""
