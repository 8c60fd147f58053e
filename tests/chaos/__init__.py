"""Faults against a whole Safelight of real processes: nothing lost, one result, one charge."""
