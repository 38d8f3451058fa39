"""``bascule demo``: two nodes, a link that is cut, clients that count."""
