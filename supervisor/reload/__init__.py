"""What a changed configuration means for a node that runs."""
