-- Jobs, their events and pictures, the cache, workers, usage and keys.

CREATE SEQUENCE lease_token;

CREATE TABLE worker (
    id          uuid PRIMARY KEY,
    host        text NOT NULL,
    pid         integer NOT NULL,
    device      text NOT NULL,
    lanes       text[] NOT NULL,
    started_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE api_key (
    id           uuid PRIMARY KEY,
    name         text NOT NULL,
    secret_hash  text NOT NULL UNIQUE,
    hint         text NOT NULL,
    admin        boolean NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    revoked_at   timestamptz
);

CREATE TABLE job (
    seq                   bigint GENERATED ALWAYS AS IDENTITY,
    id                    uuid PRIMARY KEY,
    state                 text NOT NULL CHECK (state IN
                              ('scheduled', 'queued', 'running', 'succeeded', 'failed', 'canceled', 'dead')),
    lane                  text NOT NULL,
    model                 text NOT NULL,
    batch_key             text NOT NULL,
    rank_at               timestamptz NOT NULL,
    request               jsonb NOT NULL,
    format                text NOT NULL,
    fingerprint           text NOT NULL,
    seedless_fingerprint  text NOT NULL,
    -- May an identical request join this one while it is in flight?
    joinable              boolean NOT NULL,
    cache                 text NOT NULL CHECK (cache IN ('miss', 'hit', 'joined')),
    leader_id             uuid,
    key_id                uuid,
    dimensions            jsonb NOT NULL DEFAULT '{}',
    currency              text NOT NULL,
    price                 numeric(20, 9) NOT NULL CHECK (price >= 0),
    reserved              numeric(20, 9) NOT NULL DEFAULT 0 CHECK (reserved >= 0),
    charged               numeric(20, 9) NOT NULL DEFAULT 0 CHECK (charged >= 0),
    gpu_seconds           numeric(20, 6) NOT NULL DEFAULT 0,
    attempts              integer NOT NULL DEFAULT 0,
    max_attempts          integer NOT NULL,
    attempts_allowed      integer NOT NULL,
    rescues               integer NOT NULL DEFAULT 0,
    lease_token           bigint,
    worker_id             uuid,
    cancel_requested      boolean NOT NULL DEFAULT false,
    error                 jsonb,
    warnings              jsonb NOT NULL DEFAULT '[]',
    rung_at               timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_at            timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_at            timestamptz,
    finished_at           timestamptz,
    start_at              timestamptz,
    deadline_at           timestamptz,
    CHECK ((lease_token IS NOT NULL) = (state = 'running' AND leader_id IS NULL)),
    CHECK (reserved = 0 OR state IN ('scheduled', 'queued', 'running'))
);

-- The claim: one index scan a lane.
CREATE INDEX job_queue ON job (lane, rank_at, seq) WHERE state = 'queued' AND leader_id IS NULL;
-- Batch mates.
CREATE INDEX job_mates ON job (lane, batch_key, rank_at, seq) WHERE state = 'queued' AND leader_id IS NULL;
-- One render a fingerprint in flight.
CREATE UNIQUE INDEX job_in_flight ON job (fingerprint)
    WHERE joinable AND leader_id IS NULL AND state IN ('scheduled', 'queued', 'running');
CREATE UNIQUE INDEX job_lease ON job (lease_token) WHERE lease_token IS NOT NULL;
CREATE INDEX job_held ON job (worker_id) WHERE lease_token IS NOT NULL;
CREATE INDEX job_followers ON job (leader_id) WHERE leader_id IS NOT NULL;
CREATE INDEX job_due ON job (start_at) WHERE state = 'scheduled';
CREATE INDEX job_unrung ON job (rung_at) WHERE state = 'queued' AND leader_id IS NULL;
CREATE INDEX job_deadline ON job (deadline_at)
    WHERE deadline_at IS NOT NULL AND state IN ('scheduled', 'queued', 'running');
CREATE UNIQUE INDEX job_newest ON job (seq);
CREATE INDEX job_by_key ON job (key_id, seq);

CREATE TABLE picture (
    job_id      uuid NOT NULL REFERENCES job (id) ON DELETE CASCADE,
    index       integer NOT NULL,
    key         text NOT NULL,
    seed        bigint NOT NULL,
    width       integer NOT NULL,
    height      integer NOT NULL,
    sha256      text NOT NULL,
    size_bytes  bigint NOT NULL,
    media_type  text NOT NULL,
    PRIMARY KEY (job_id, index)
);

CREATE TABLE cache_entry (
    fingerprint           text PRIMARY KEY,
    seedless_fingerprint  text NOT NULL,
    pictures              jsonb NOT NULL,
    created_at            timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX cache_entry_seedless ON cache_entry (seedless_fingerprint, created_at DESC);

CREATE TABLE job_event (
    seq     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id  uuid NOT NULL REFERENCES job (id) ON DELETE CASCADE,
    kind    text NOT NULL CHECK (kind IN ('state', 'done')),
    data    jsonb NOT NULL,
    at      timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX job_event_job ON job_event (job_id, seq);

-- One row a settled attempt; it outlives its job.
CREATE TABLE usage (
    seq          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id       uuid NOT NULL,
    attempt      integer NOT NULL,
    key_id       uuid,
    model        text NOT NULL,
    device       text NOT NULL,
    outcome      text NOT NULL,
    gpu_seconds  numeric(20, 6) NOT NULL,
    charged      numeric(20, 9) NOT NULL,
    currency     text NOT NULL,
    dimensions   jsonb NOT NULL,
    at           timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX usage_job ON usage (job_id);
