"""Commands that plan, simulate, decode and compare."""
