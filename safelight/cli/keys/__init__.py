"""Commands that make, list and revoke API keys, straight in the store."""
