"""The documents: what they tell a reader to type is typed, and what they say is generated is what the generator prints."""
