"""Access of local clients: CONNECT judged, access control lists, the text of a password file."""
