"""Which oracle is best for a task: by its exact variance, and by simulated collections."""
