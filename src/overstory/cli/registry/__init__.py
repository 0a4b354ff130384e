"""Commands over a metric registry."""
