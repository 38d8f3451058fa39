"""Keys and values on the disk: RocksDB or memory behind one protocol, its folder, and what is done about damage."""
