"""What every daemon has in common: an address, tasks that no error ends, a clock that no jump misleads, a log."""
