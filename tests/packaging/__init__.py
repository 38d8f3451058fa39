"""Installations: the service, the wheel and the Debian package."""
