"""Commands that run Safelight itself, and look after its store."""
