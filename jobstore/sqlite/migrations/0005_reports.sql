-- What reports of costs and times ask of the ledger, so that they need no job, which is deleted sooner.

-- Pictures that the attempt brought.
ALTER TABLE usage ADD COLUMN pictures INTEGER NOT NULL DEFAULT 0 CHECK (pictures >= 0);
-- Of a job that got pictures which were rendered: when it was submitted, or what it was scheduled for.
ALTER TABLE usage ADD COLUMN wanted_at INTEGER;

-- What earlier versions wrote, as far as its jobs are still known.
UPDATE usage SET
    pictures = (SELECT coalesce(json_extract(job.request, '$.n'), 1) FROM job WHERE job.id = usage.job_id),
    wanted_at = (
        SELECT CASE WHEN usage.cache <> 'hit' THEN max(job.created_at, coalesce(
            unixepoch(json_extract(job.request, '$.start_at')) * 1000000, 0
        )) END
        FROM job WHERE job.id = usage.job_id
    )
WHERE outcome = 'succeeded' AND EXISTS (SELECT 1 FROM job WHERE job.id = usage.job_id);

-- A key's own report.
CREATE INDEX usage_key ON usage (key_id, at);
