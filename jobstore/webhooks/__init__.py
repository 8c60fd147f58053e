"""Webhooks: who is told of jobs, what they are told, how it is signed, and which addresses may be told."""
