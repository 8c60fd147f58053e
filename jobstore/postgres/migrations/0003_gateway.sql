-- What a gateway needs: teams and customers, scoped and rotated keys, quotas, prices by device time, fallbacks, traces.

ALTER TABLE api_key
    ADD COLUMN team            text,
    ADD COLUMN customer        text,
    ADD COLUMN scopes          text[] NOT NULL DEFAULT '{submit,read}',
    -- The models that the key may use; NULL for all.
    ADD COLUMN models          text[],
    ADD COLUMN expires_at      timestamptz,
    -- The secret before the last rotation counts until then.
    ADD COLUMN previous_hash   text UNIQUE,
    ADD COLUMN previous_until  timestamptz;

CREATE TABLE audit_log (
    seq      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The key that acted; NULL for the command line on the server's own machine.
    key_id   uuid,
    actor    text NOT NULL,
    action   text NOT NULL,
    target   text NOT NULL,
    details  jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX audit_log_at ON audit_log (at);

-- A limit that a key, a team or a customer has: on money, on submits in a window, or on jobs at once.
CREATE TABLE quota (
    id          uuid PRIMARY KEY,
    owner_kind  text NOT NULL CHECK (owner_kind IN ('key', 'team', 'customer')),
    owner       text NOT NULL,
    kind        text NOT NULL CHECK (kind IN ('spend', 'requests', 'concurrency')),
    most        numeric(20, 9) NOT NULL CHECK (most >= 0),
    currency    text NOT NULL DEFAULT '',
    period      text NOT NULL,
    rolling     boolean NOT NULL,
    zone        text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (owner_kind, owner, kind, currency, period, rolling)
);
-- What a quota's jobs hold while they are unfinished, and what was used up for good, by slices of time.
CREATE TABLE quota_slice (
    quota_id   uuid NOT NULL REFERENCES quota (id) ON DELETE CASCADE,
    starts_at  timestamptz NOT NULL,
    held       numeric(20, 9) NOT NULL DEFAULT 0 CHECK (held >= 0),
    used       numeric(20, 9) NOT NULL DEFAULT 0 CHECK (used >= 0),
    PRIMARY KEY (quota_id, starts_at)
) WITH (fillfactor = 50);

DROP VIEW any_job;
ALTER TABLE job
    ADD COLUMN team         text,
    ADD COLUMN customer     text,
    -- The slices of quotas that the job is booked in: [{"quota_id", "starts_at", "kind"}].
    ADD COLUMN quotas       jsonb NOT NULL DEFAULT '[]',
    -- The most that the job can come to, on whatever route: what its quotas hold for it.
    ADD COLUMN ceiling      numeric(20, 9) NOT NULL DEFAULT 0 CHECK (ceiling >= 0),
    -- Price of an hour of device time; NULL where the price is fixed.
    ADD COLUMN rate         numeric(20, 9) CHECK (rate >= 0),
    ADD COLUMN fallbacks    jsonb NOT NULL DEFAULT '[]',
    ADD COLUMN traceparent  text;
ALTER TABLE job_archive
    ADD COLUMN team         text,
    ADD COLUMN customer     text,
    ADD COLUMN quotas       jsonb NOT NULL DEFAULT '[]',
    ADD COLUMN ceiling      numeric(20, 9) NOT NULL DEFAULT 0 CHECK (ceiling >= 0),
    ADD COLUMN rate         numeric(20, 9) CHECK (rate >= 0),
    ADD COLUMN fallbacks    jsonb NOT NULL DEFAULT '[]',
    ADD COLUMN traceparent  text;
CREATE VIEW any_job AS SELECT * FROM job UNION ALL SELECT * FROM job_archive;

ALTER TABLE usage
    ADD COLUMN team      text,
    ADD COLUMN customer  text;
