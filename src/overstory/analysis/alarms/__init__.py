"""Alarms: what about a metric's newest reports should make somebody look. Pure functions of estimates and counts."""
