"""One process and its actors: mailboxes, sockets, turns, the template that all are forked from, logs."""
