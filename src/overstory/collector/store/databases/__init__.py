"""The databases that a store may be in: SQLite and PostgreSQL."""
