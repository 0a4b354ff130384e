"""``overstory collect``: columns of numbers, columns of several choices, and two columns at once."""
