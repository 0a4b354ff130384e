"""How two variables hang together: tables of their pairs, and what they say."""
