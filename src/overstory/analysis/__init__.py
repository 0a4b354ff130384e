"""The server's half: from reports to counts, and from counts to estimates with their uncertainty."""
