-- Everything a job store keeps. Instants are microseconds since 1970 (UTC), amounts decimal texts, ids texts.

CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO counter VALUES ('lease_token', 0);

CREATE TABLE worker (
    id          TEXT PRIMARY KEY,
    host        TEXT NOT NULL,
    pid         INTEGER NOT NULL,
    device      TEXT NOT NULL,
    lanes       TEXT NOT NULL,
    lease_s     REAL NOT NULL,
    started_at  INTEGER NOT NULL,
    seen_at     INTEGER NOT NULL
);

CREATE TABLE api_key (
    id           TEXT PRIMARY KEY,
    name         TEXT NOT NULL,
    secret_hash  TEXT NOT NULL UNIQUE,
    hint         TEXT NOT NULL,
    admin        INTEGER NOT NULL,
    weight       REAL NOT NULL CHECK (weight > 0),
    created_at   INTEGER NOT NULL,
    revoked_at   INTEGER
);

CREATE TABLE lane (
    name       TEXT PRIMARY KEY,
    paused_at  INTEGER,
    reason     TEXT NOT NULL DEFAULT '',
    virtual_s  REAL NOT NULL DEFAULT 0,
    tenants    INTEGER NOT NULL DEFAULT 1,
    served_at  INTEGER
);

CREATE TABLE job (
    seq                   INTEGER PRIMARY KEY AUTOINCREMENT,
    id                    TEXT NOT NULL UNIQUE,
    state                 TEXT NOT NULL CHECK (state IN
                              ('scheduled', 'queued', 'running', 'succeeded', 'failed', 'canceled', 'dead')),
    lane                  TEXT NOT NULL,
    model                 TEXT NOT NULL,
    batch_key             TEXT NOT NULL,
    rank_at               REAL NOT NULL,
    start_tag             REAL NOT NULL,
    share_s               REAL NOT NULL,
    expected_s            REAL NOT NULL,
    request               TEXT NOT NULL,
    format                TEXT NOT NULL,
    fingerprint           TEXT NOT NULL,
    seedless_fingerprint  TEXT NOT NULL,
    joinable              INTEGER NOT NULL,
    followed              INTEGER NOT NULL DEFAULT 0,
    cache                 TEXT NOT NULL CHECK (cache IN ('miss', 'hit', 'joined')),
    leader_id             TEXT,
    key_id                TEXT,
    dimensions            TEXT NOT NULL,
    currency              TEXT NOT NULL,
    price                 TEXT NOT NULL,
    reserved              TEXT NOT NULL,
    charged               TEXT NOT NULL DEFAULT '0',
    gpu_seconds           TEXT NOT NULL DEFAULT '0',
    attempts              INTEGER NOT NULL DEFAULT 0,
    max_attempts          INTEGER NOT NULL,
    attempts_allowed      INTEGER NOT NULL,
    rescues               INTEGER NOT NULL DEFAULT 0,
    lease_token           INTEGER UNIQUE,
    worker_id             TEXT,
    cancel_requested      INTEGER NOT NULL DEFAULT 0,
    error                 TEXT,
    warnings              TEXT NOT NULL DEFAULT '[]',
    rung_at               INTEGER NOT NULL,
    created_at            INTEGER NOT NULL,
    started_at            INTEGER,
    finished_at           INTEGER,
    start_at              INTEGER,
    start_by              INTEGER,
    deadline_at           INTEGER,
    CHECK ((lease_token IS NOT NULL) = (state = 'running' AND leader_id IS NULL))
);
CREATE INDEX job_queue ON job (lane, rank_at, seq, expected_s) WHERE state = 'queued' AND leader_id IS NULL;
CREATE INDEX job_mates ON job (lane, batch_key, rank_at, seq) WHERE state = 'queued' AND leader_id IS NULL;
CREATE INDEX job_tenant ON job (lane, key_id, start_tag) WHERE leader_id IS NULL AND (state = 'queued' OR started_at IS NOT NULL);
CREATE UNIQUE INDEX job_in_flight ON job (fingerprint)
    WHERE joinable AND leader_id IS NULL AND state IN ('scheduled', 'queued', 'running');
CREATE INDEX job_held ON job (worker_id) WHERE lease_token IS NOT NULL;
CREATE INDEX job_followers ON job (leader_id) WHERE leader_id IS NOT NULL;
CREATE INDEX job_unrung ON job (rung_at) WHERE state = 'queued' AND leader_id IS NULL;
CREATE INDEX job_due ON job (start_at) WHERE state = 'scheduled';
CREATE INDEX job_live ON job (state, lane) WHERE state IN ('scheduled', 'queued', 'running');
CREATE INDEX job_by_key ON job (key_id, seq);
CREATE INDEX job_finished ON job (finished_at) WHERE finished_at IS NOT NULL;

CREATE TABLE picture (
    job_id      TEXT NOT NULL,
    "index"     INTEGER NOT NULL,
    key         TEXT NOT NULL,
    seed        INTEGER NOT NULL,
    width       INTEGER NOT NULL,
    height      INTEGER NOT NULL,
    sha256      TEXT NOT NULL,
    size_bytes  INTEGER NOT NULL,
    media_type  TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (job_id, "index")
);
CREATE INDEX picture_key ON picture (key);
CREATE INDEX picture_age ON picture (created_at);

CREATE TABLE cache_entry (
    fingerprint           TEXT PRIMARY KEY,
    seedless_fingerprint  TEXT NOT NULL,
    pictures              TEXT NOT NULL,
    created_at            INTEGER NOT NULL
);
CREATE INDEX cache_entry_seedless ON cache_entry (seedless_fingerprint, created_at);
CREATE INDEX cache_entry_age ON cache_entry (created_at);
CREATE TABLE cache_picture (
    fingerprint  TEXT NOT NULL REFERENCES cache_entry (fingerprint) ON DELETE CASCADE,
    key          TEXT NOT NULL,
    PRIMARY KEY (fingerprint, key)
) WITHOUT ROWID;
CREATE INDEX cache_picture_key ON cache_picture (key);
CREATE TABLE doomed_output (key TEXT PRIMARY KEY, doomed_at INTEGER NOT NULL);

CREATE TABLE job_event (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id  TEXT NOT NULL,
    kind    TEXT NOT NULL CHECK (kind IN ('state', 'done')),
    data    TEXT NOT NULL,
    at      INTEGER NOT NULL
);
CREATE INDEX job_event_job ON job_event (job_id, seq);

CREATE TABLE usage (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id       TEXT NOT NULL,
    attempt      INTEGER NOT NULL,
    token        INTEGER,
    key_id       TEXT,
    lane         TEXT NOT NULL,
    model        TEXT NOT NULL,
    device       TEXT NOT NULL,
    worker_id    TEXT,
    outcome      TEXT NOT NULL,
    error_code   TEXT,
    cache        TEXT NOT NULL,
    gpu_seconds  TEXT NOT NULL,
    price        TEXT NOT NULL,
    charged      TEXT NOT NULL,
    currency     TEXT NOT NULL,
    dimensions   TEXT NOT NULL,
    at           INTEGER NOT NULL
);
CREATE INDEX usage_job ON usage (job_id);
CREATE UNIQUE INDEX usage_attempt ON usage (job_id, token) WHERE token IS NOT NULL;
CREATE INDEX usage_at ON usage (at);

CREATE TABLE replay (
    scope        TEXT NOT NULL,
    key          TEXT NOT NULL,
    body_sha256  TEXT NOT NULL,
    job_id       TEXT NOT NULL,
    expires_at   INTEGER NOT NULL,
    PRIMARY KEY (scope, key)
) WITHOUT ROWID;
CREATE INDEX replay_age ON replay (expires_at);

CREATE TABLE balance (
    key_id    TEXT NOT NULL,
    currency  TEXT NOT NULL,
    reserved  TEXT NOT NULL,
    charged   TEXT NOT NULL,
    PRIMARY KEY (key_id, currency)
) WITHOUT ROWID;

CREATE TABLE pace (
    model    TEXT NOT NULL,
    width    INTEGER NOT NULL,
    height   INTEGER NOT NULL,
    device   TEXT NOT NULL,
    step_s   REAL NOT NULL,
    seen_at  INTEGER NOT NULL,
    PRIMARY KEY (model, width, height, device)
);
