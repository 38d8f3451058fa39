"""What can be said: pure values and decisions; standard library and msgpack only."""
