"""Counting more reports than one process should: units of files, counted anywhere by an engine, each taken once."""
