"""Who does it: one pykka actor a process, each a short mailbox loop around pure classes."""
