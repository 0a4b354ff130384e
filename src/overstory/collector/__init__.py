"""The service that devices report to: it decides, commits, keeps, and lets its operator read."""
