"""The edge gateway: a stream of readings in, reports out. The standard library alone."""
