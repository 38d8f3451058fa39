"""Pure values and decisions; standard library and msgpack only."""
