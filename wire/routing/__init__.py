"""Routing: bridges' rules, mappings, subscriptions, shared groups, retained topics."""
