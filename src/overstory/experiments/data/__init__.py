"""Data sets that travel with the package, each with its source and licence."""
