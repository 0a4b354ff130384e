"""Encodings: from a value to what the channels randomize."""
