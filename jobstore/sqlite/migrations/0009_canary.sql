-- Which share of a model's jobs its canary takes, where an operator has said other than the settings.
-- needs: 8

CREATE TABLE canary (
    model       TEXT PRIMARY KEY,
    share       REAL NOT NULL CHECK (share BETWEEN 0 AND 1),
    changed_at  INTEGER NOT NULL,
    changed_by  TEXT NOT NULL
) WITHOUT ROWID;
