"""What a terminal shows: tables, durations, messages, and how a command fails."""
