"""What several tests use: sample registries, devices, collectors, processes, known answers."""
