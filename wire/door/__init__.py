"""Who may come in and what they may do: CONNECT judged, access control lists, the text of a password file."""
