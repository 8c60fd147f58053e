"""Commands that look after API keys and read the audit log, straight in the store."""
