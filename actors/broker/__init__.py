"""Local clients, served: the Listener with its parts, and the Distributor."""
