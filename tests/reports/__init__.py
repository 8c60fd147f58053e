"""Reports of costs and times against the ledger."""
