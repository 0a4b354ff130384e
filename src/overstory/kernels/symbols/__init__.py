"""Reports that are symbols or signs: simulated and counted."""
