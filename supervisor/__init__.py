"""Supervision: the child table, restarts, the control socket, the configuration and the command line."""
