"""The page of a real node in a real Chromium: one of each for all files here."""
