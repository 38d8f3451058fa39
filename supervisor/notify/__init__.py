"""Troubles of the node that somebody is told of: when they begin, and when they are over."""
