"""Who gets a message, under which topic: bridges' rules, mappings, subscriptions, shared groups, retained topics."""
