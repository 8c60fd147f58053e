"""Two releases on one schema, and processes that are replaced while they work."""
