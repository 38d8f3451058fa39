"""The status of a node: one tree of figures, each declared once, with what it means and the metric that it becomes."""
