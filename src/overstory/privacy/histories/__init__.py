"""What tells one history of values from another: exact losses, and bounds for many reports."""
