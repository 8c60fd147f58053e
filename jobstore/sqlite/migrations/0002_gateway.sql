-- What a gateway needs: teams and customers, scoped and rotated keys, quotas, prices by device time, fallbacks, traces.

ALTER TABLE api_key ADD COLUMN team TEXT;
ALTER TABLE api_key ADD COLUMN customer TEXT;
ALTER TABLE api_key ADD COLUMN scopes TEXT NOT NULL DEFAULT '["submit", "read"]';
-- The models that the key may use; NULL for all.
ALTER TABLE api_key ADD COLUMN models TEXT;
ALTER TABLE api_key ADD COLUMN expires_at INTEGER;
-- The secret before the last rotation counts until then.
ALTER TABLE api_key ADD COLUMN previous_hash TEXT;
ALTER TABLE api_key ADD COLUMN previous_until INTEGER;
CREATE UNIQUE INDEX api_key_previous ON api_key (previous_hash);

CREATE TABLE audit_log (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT,
    at       INTEGER NOT NULL,
    -- The key that acted; NULL for the command line on the server's own machine.
    key_id   TEXT,
    actor    TEXT NOT NULL,
    action   TEXT NOT NULL,
    target   TEXT NOT NULL,
    details  TEXT NOT NULL DEFAULT '{}'
);
CREATE INDEX audit_log_at ON audit_log (at);

-- A limit that a key, a team or a customer has: on money, on submits in a window, or on jobs at once.
CREATE TABLE quota (
    id          TEXT PRIMARY KEY,
    owner_kind  TEXT NOT NULL CHECK (owner_kind IN ('key', 'team', 'customer')),
    owner       TEXT NOT NULL,
    kind        TEXT NOT NULL CHECK (kind IN ('spend', 'requests', 'concurrency')),
    most        TEXT NOT NULL,
    currency    TEXT NOT NULL DEFAULT '',
    period      TEXT NOT NULL,
    rolling     INTEGER NOT NULL,
    zone        TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    UNIQUE (owner_kind, owner, kind, currency, period, rolling)
);
-- What a quota's jobs hold while they are unfinished, and what was used up for good, by slices of time.
CREATE TABLE quota_slice (
    quota_id   TEXT NOT NULL REFERENCES quota (id) ON DELETE CASCADE,
    starts_at  INTEGER NOT NULL,
    held       TEXT NOT NULL,
    used       TEXT NOT NULL,
    PRIMARY KEY (quota_id, starts_at)
) WITHOUT ROWID;

ALTER TABLE job ADD COLUMN team TEXT;
ALTER TABLE job ADD COLUMN customer TEXT;
-- The slices of quotas that the job is booked in: [{"quota_id", "starts_at", "kind"}].
ALTER TABLE job ADD COLUMN quotas TEXT NOT NULL DEFAULT '[]';
-- The most that the job can come to, on whatever route: what its quotas hold for it.
ALTER TABLE job ADD COLUMN ceiling TEXT NOT NULL DEFAULT '0';
-- Price of an hour of device time; NULL where the price is fixed.
ALTER TABLE job ADD COLUMN rate TEXT;
ALTER TABLE job ADD COLUMN fallbacks TEXT NOT NULL DEFAULT '[]';
ALTER TABLE job ADD COLUMN traceparent TEXT;

ALTER TABLE usage ADD COLUMN team TEXT;
ALTER TABLE usage ADD COLUMN customer TEXT;
