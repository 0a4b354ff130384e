"""The server's half of each kind: counts, estimates, their covariances, and simulated devices."""
