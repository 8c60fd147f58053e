"""Commands that talk to a running Safelight over HTTP."""
