"""The HTTP interface: one more process, which serves operators, monitoring and the page; it asks the node as any client does."""
