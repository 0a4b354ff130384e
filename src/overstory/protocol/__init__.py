"""What a device and a collector must agree on. The standard library alone, so that any program can carry it."""
