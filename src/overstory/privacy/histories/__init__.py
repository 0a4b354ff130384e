"""What distinguishes one history of values from another: exact losses, and bounds for many reports."""
