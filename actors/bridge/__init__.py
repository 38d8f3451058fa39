"""One lane of a bridge: the Forwarder, the Connection and its remote."""
