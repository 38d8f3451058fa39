"""End to end: a real node between a real client and a real Mosquitto."""
