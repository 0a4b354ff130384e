"""A relay, run by somebody else: it passes encapsulated messages on to a collector, and never who sent them."""
