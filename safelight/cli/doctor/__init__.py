"""The command that checks everything that Safelight needs."""
