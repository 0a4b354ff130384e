"""Reports that are sets or points: simulated and counted."""
