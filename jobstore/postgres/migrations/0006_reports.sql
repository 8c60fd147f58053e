-- What reports of costs and times ask of the ledger, so that they need no job, which is deleted sooner.

ALTER TABLE usage
    -- Pictures that the attempt brought.
    ADD COLUMN pictures   integer NOT NULL DEFAULT 0 CHECK (pictures >= 0),
    -- Of a job that got pictures which were rendered: when it was submitted, or what it was scheduled for.
    ADD COLUMN wanted_at  timestamptz;

-- What earlier versions wrote, as far as its jobs are still known.
UPDATE usage SET
    pictures = coalesce((job.request ->> 'n')::integer, 1),
    wanted_at = CASE WHEN usage.cache <> 'hit'
        THEN greatest(job.created_at, (job.request ->> 'start_at')::timestamptz) END
FROM any_job AS job WHERE job.id = usage.job_id AND usage.outcome = 'succeeded';

-- A key's own report.
CREATE INDEX usage_key ON usage (key_id, at);

-- The first instant of a day as a zone counts it: midnight, the earlier one where a clock change brings it twice, and
-- the first instant after it where one leaves it out.
CREATE FUNCTION day_start(day date, zone text) RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
RETURN (
    SELECT min(instant)
    FROM (
        SELECT day::timestamp AT TIME ZONE zone - make_interval(mins => minutes) AS instant
        FROM generate_series(0, 180, 15) AS minutes
    ) AS candidate
    WHERE (instant AT TIME ZONE zone)::date >= day
);
