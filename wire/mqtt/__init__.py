"""MQTT 3.1.1 and 5.0 on the wire: packets, properties, reason codes, topics."""
