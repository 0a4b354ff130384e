"""Numbers, the server's halves: distributions from Square Wave, means, and range queries."""
