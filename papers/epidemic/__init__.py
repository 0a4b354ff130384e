"""Frequency feature extraction by local differential privacy (Computer Science 49(7), 2022): an epidemic survey."""
