"""Grafana's dashboards as code: ``python -m dashboards.grafana`` writes the JSON files that Grafana reads."""
