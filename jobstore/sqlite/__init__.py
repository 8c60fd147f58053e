"""Jobs in a SQLite file: one machine, no server."""
