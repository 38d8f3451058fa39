"""Configurations of other brokers become ours: what is behind ``bascule convert``."""
