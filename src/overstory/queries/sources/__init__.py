"""Where counts are read from, besides one store: several shards' stores, exported files, a collector's address."""
