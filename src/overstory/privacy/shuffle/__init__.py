"""What reports reveal that arrive shuffled among those of other people. The standard library alone."""
