"""QoS 1 and 2 with one peer: the sender's and the receiver's half, resumed sessions, refusals, keep alive."""
