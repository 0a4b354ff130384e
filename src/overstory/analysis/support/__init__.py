"""Which values a report supports, by kind of encoding."""
