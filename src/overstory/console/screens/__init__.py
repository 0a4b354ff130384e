"""The console's screens: what each shows, and at which addresses."""
