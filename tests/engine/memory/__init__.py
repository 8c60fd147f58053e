"""Memory plans."""
