"""How long reports of costs and times take on a large ledger."""
