"""HTTP edge: thin handlers, framing, error mapping, settlement of every exchange."""
