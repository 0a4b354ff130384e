"""The person's choice and what follows from it."""
