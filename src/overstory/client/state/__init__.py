"""What a device keeps: its secret, its memo, and the reports that wait."""
