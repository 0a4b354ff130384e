"""Where counts are read from, besides a store: exported files, a collector's address."""
