"""Actors of pykka, by the kinds of processes that they live in, each a short mailbox loop around pure classes."""
