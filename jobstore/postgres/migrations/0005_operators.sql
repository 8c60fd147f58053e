-- What operators look at and ask for: workers that drain and tell of themselves, batches, and searches that stay short.

ALTER TABLE worker
    -- Asked to claim no more.
    ADD COLUMN drain_asked_at  timestamptz,
    -- It stopped and holds nothing; its row tells for a day which host it was.
    ADD COLUMN left_at         timestamptz,
    -- What it told of itself with its last beat.
    ADD COLUMN report          jsonb CHECK (octet_length(report::text) <= 8192);

-- How many pictures shared the attempt's steps on the average, the job's own among them; NULL where nobody could tell.
ALTER TABLE usage ADD COLUMN batch_rows real;

DROP VIEW any_job;
-- Up to 16 jobs that shared steps with the render that gave the pictures.
ALTER TABLE job ADD COLUMN batch_mates uuid[];
ALTER TABLE job_archive ADD COLUMN batch_mates uuid[];
CREATE VIEW any_job AS SELECT * FROM job UNION ALL SELECT * FROM job_archive;

-- What ended badly, newest first: few among the many.
CREATE INDEX job_spoilt ON job (seq) WHERE state IN ('failed', 'dead', 'canceled');
CREATE INDEX job_archive_spoilt ON job_archive (seq) WHERE state IN ('failed', 'dead', 'canceled');

-- What can be sent anew at once, the oldest first: few among the many, too.
CREATE INDEX webhook_delivery_failed ON webhook_delivery (seq) WHERE state = 'failed';
