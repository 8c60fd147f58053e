-- Which share of a model's jobs its canary takes, where an operator has said other than the settings.
-- needs: 9

CREATE TABLE canary (
    model       text PRIMARY KEY,
    share       double precision NOT NULL CHECK (share BETWEEN 0 AND 1),
    changed_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    changed_by  text NOT NULL
);
