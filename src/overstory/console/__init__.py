"""The console: what was learned, how surely, and whether collection is healthy, in a browser."""
