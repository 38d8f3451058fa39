"""Output on a terminal: tables, durations, messages, and how a command fails."""
