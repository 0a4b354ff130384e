"""What `overstory doctor` looks at, and what a registry may not change under reports that are stored."""
