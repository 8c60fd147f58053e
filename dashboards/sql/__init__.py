"""Costs in SQL: documented views over the ledger, for whoever asks by psql, a notebook or Grafana (docs/costs.md)."""
