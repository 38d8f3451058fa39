"""Local clients on their way in: listening sockets, TLS and WebSocket layers, logins, limits."""
