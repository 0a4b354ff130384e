"""Mechanisms: the device's half of a frequency oracle. An encoding, one or two channels, and their epsilons."""
