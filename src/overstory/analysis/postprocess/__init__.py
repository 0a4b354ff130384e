"""Named steps after an unbiased estimate."""
