"""The way to a remote broker: addresses, sockets, TLS, who we are, CONNECT and its answer."""
