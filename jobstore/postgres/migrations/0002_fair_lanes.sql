-- Fair lanes, idempotency keys, balances, a fuller ledger, and an archive that keeps the hot table small.

-- Jobs are ranked in virtual seconds of their lane from here on: see docs/fairness.md.
CREATE TABLE lane (
    name       text PRIMARY KEY,
    paused_at  timestamptz,
    reason     text NOT NULL DEFAULT '',
    virtual_s  double precision NOT NULL DEFAULT 0,
    tenants    integer NOT NULL DEFAULT 1,
    served_at  timestamptz
) WITH (fillfactor = 50);
INSERT INTO lane (name, virtual_s) SELECT lane, extract(epoch FROM statement_timestamp()) FROM job GROUP BY lane;

DROP INDEX job_queue, job_mates, job_newest, job_by_key;
ALTER TABLE job
    ALTER COLUMN rank_at TYPE double precision USING extract(epoch FROM rank_at),
    ADD COLUMN start_tag   double precision NOT NULL DEFAULT 0,
    ADD COLUMN share_s     double precision NOT NULL DEFAULT 0,
    ADD COLUMN expected_s  double precision NOT NULL DEFAULT 0,
    ADD COLUMN start_by    timestamptz,
    -- Did a job ever join this one? If not, a claim and a finish need look for none.
    ADD COLUMN followed    boolean NOT NULL DEFAULT false;
UPDATE job SET start_tag = rank_at;
UPDATE job SET followed = true WHERE id IN (SELECT leader_id FROM job WHERE leader_id IS NOT NULL);

-- The claim: one index scan a lane. What stands before a job can be counted and summed in the index alone.
CREATE INDEX job_queue ON job (lane, rank_at, seq) INCLUDE (expected_s) WHERE state = 'queued' AND leader_id IS NULL;
CREATE INDEX job_mates ON job (lane, batch_key, rank_at, seq) WHERE state = 'queued' AND leader_id IS NULL;
-- The end of what a tenant had in a lane, be it queued or just done.
CREATE INDEX job_tenant ON job (lane, coalesce(key_id, '00000000-0000-0000-0000-000000000000'::uuid), start_tag)
    INCLUDE (share_s, state) WHERE leader_id IS NULL AND (state = 'queued' OR started_at IS NOT NULL);
CREATE UNIQUE INDEX job_newest ON job (seq);
CREATE INDEX job_by_key ON job (key_id, seq);
CREATE INDEX job_finished ON job (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX job_start_by ON job (start_by)
    WHERE start_by IS NOT NULL AND started_at IS NULL AND state IN ('scheduled', 'queued');
ALTER TABLE job SET (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 1
);

-- Finished jobs move here a minute after their end: vacuum and the claim's indexes never see the history.
CREATE TABLE job_archive (LIKE job INCLUDING DEFAULTS INCLUDING CONSTRAINTS);
ALTER TABLE job_archive ADD PRIMARY KEY (id);
CREATE UNIQUE INDEX job_archive_newest ON job_archive (seq);
CREATE INDEX job_archive_by_key ON job_archive (key_id, seq);
CREATE INDEX job_archive_finished ON job_archive (finished_at);
CREATE INDEX job_archive_letters ON job_archive (finished_at) WHERE state IN ('failed', 'dead');
CREATE INDEX job_letters ON job (finished_at) WHERE state IN ('failed', 'dead');
CREATE VIEW any_job AS SELECT * FROM job UNION ALL SELECT * FROM job_archive;

-- Pictures and events outlive the move; retention deletes them.
ALTER TABLE picture DROP CONSTRAINT picture_job_id_fkey;
ALTER TABLE picture ADD COLUMN created_at timestamptz NOT NULL DEFAULT clock_timestamp();
CREATE INDEX picture_key ON picture (key);
CREATE INDEX picture_age ON picture (created_at);
ALTER TABLE job_event DROP CONSTRAINT job_event_job_id_fkey;
CREATE INDEX cache_entry_age ON cache_entry (created_at);
CREATE INDEX cache_entry_pictures ON cache_entry USING gin (pictures jsonb_path_ops);
CREATE TABLE doomed_output (
    key        text PRIMARY KEY,
    doomed_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX doomed_output_age ON doomed_output (doomed_at);

CREATE TABLE replay (
    -- The API key's id, or zeros for requests without one.
    scope        uuid NOT NULL,
    key          text NOT NULL,
    body_sha256  text NOT NULL,
    job_id       uuid NOT NULL,
    expires_at   timestamptz NOT NULL,
    PRIMARY KEY (scope, key)
);
CREATE INDEX replay_age ON replay (expires_at);

CREATE TABLE balance (
    key_id    uuid NOT NULL,
    currency  text NOT NULL,
    reserved  numeric(20, 9) NOT NULL CHECK (reserved >= 0),
    charged   numeric(20, 9) NOT NULL CHECK (charged >= 0),
    PRIMARY KEY (key_id, currency)
) WITH (fillfactor = 50);
INSERT INTO balance (key_id, currency, reserved, charged)
    SELECT key_id, currency, sum(reserved), sum(charged) FROM job WHERE key_id IS NOT NULL GROUP BY key_id, currency;

ALTER TABLE usage
    ADD COLUMN token       bigint,
    ADD COLUMN lane        text NOT NULL DEFAULT '',
    ADD COLUMN worker_id   uuid,
    ADD COLUMN error_code  text,
    ADD COLUMN cache       text NOT NULL DEFAULT 'miss',
    ADD COLUMN price       numeric(20, 9) NOT NULL DEFAULT 0;
-- One row an attempt: a second settlement of the same lease can't be written.
CREATE UNIQUE INDEX usage_attempt ON usage (job_id, token) WHERE token IS NOT NULL;
CREATE INDEX usage_at ON usage (at);

CREATE TABLE pace (
    model    text NOT NULL,
    width    integer NOT NULL,
    height   integer NOT NULL,
    device   text NOT NULL,
    step_s   double precision NOT NULL,
    seen_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (model, width, height, device)
);

-- A worker counts as a device of its lanes for so long after a beat.
ALTER TABLE worker ADD COLUMN lease_s double precision NOT NULL DEFAULT 30;

ALTER TABLE api_key ADD COLUMN weight double precision NOT NULL DEFAULT 1 CHECK (weight > 0);
