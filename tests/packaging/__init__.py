"""What is installed: the service, the wheel and the Debian package."""
