"""Random bits for kernels: ChaCha streams and Bernoulli draws."""
