"""All queues and sessions of a node: turns and their commits, hand-outs, limits, sessions, operators' commands."""
