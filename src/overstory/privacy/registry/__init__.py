"""What a registry costs and promises: its public pages, warnings, changes and totals."""
