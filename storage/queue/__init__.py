"""One durable queue: its chunks, positions, messages in flight, history, ledger and dead letters."""
