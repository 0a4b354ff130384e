"""Copies of what a store holds: backups, exported files, and reports imported from another store's."""
