"""Reports with one of a small set of public seeds: counted by seed and symbol, and what follows for the estimates."""
