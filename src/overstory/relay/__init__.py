"""A relay: it passes encapsulated messages on to a collector, and never who sent them; run by somebody else.

It passes each message on at once, or (`--spool`) gathers them on disk and releases many together in a random order.
"""
