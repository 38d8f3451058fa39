"""The operating system and operators' files: TLS, certificates, files that change, what a socket has not sent."""
