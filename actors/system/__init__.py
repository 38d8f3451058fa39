"""What the operating system and operators' files give: TLS, certificates, files that change, what a socket has not sent."""
