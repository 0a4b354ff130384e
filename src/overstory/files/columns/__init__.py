"""A column of a user's own file: CSV, JSON lines or Parquet, read in a stream."""
