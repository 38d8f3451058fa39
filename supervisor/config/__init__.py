"""The configuration file: every key, how it is read, checked, and turned into settings."""
