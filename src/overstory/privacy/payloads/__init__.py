"""What the reports of a mechanism disclose: one class for each kind of payload."""
