"""Doubles and real partners for tests: brokers, clients, nodes, cut cables."""
