"""The control socket: its language, and the commands that the store obeys."""
