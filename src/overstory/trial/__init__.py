"""Your own column: what would have been learned, and at what price, without any of it leaving the machine."""
