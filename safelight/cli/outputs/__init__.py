"""``safelight outputs``: commands that look after stored pictures."""
