"""Black-box conformance of a broker to MQTT 3.1.1 and MQTT 5.0, statement by statement."""
