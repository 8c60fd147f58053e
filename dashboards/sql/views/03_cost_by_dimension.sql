-- Rows of the same dimensions are added up before a dimension is looked at: that is most of the work saved. So it reads
-- the ledger itself, as whoever made it, and leaves out the names of secrets at the end.
CREATE FUNCTION safelight_report.cost_by_dimension(zone text, first date, last date)
RETURNS TABLE (
    day date, dimension text, value text, currency text, jobs bigint, pictures bigint, gpu_seconds numeric,
    charged numeric, saved numeric
) LANGUAGE sql STABLE SECURITY DEFINER SET jit = off SET work_mem = '64MB'
BEGIN ATOMIC
    WITH sums AS MATERIALIZED (
        SELECT width_bucket(at, (SELECT safelight_report.day_starts(zone, first, last))) AS place, dimensions, currency,
               count(*) FILTER (WHERE outcome = 'succeeded') AS jobs, sum(pictures) AS pictures,
               sum(gpu_seconds) AS gpu_seconds, sum(charged) AS charged,
               coalesce(sum(price) FILTER (WHERE outcome = 'succeeded' AND cache <> 'miss'), 0) AS saved
        FROM usage
        WHERE at >= safelight_report.begins(first, zone) AND at < safelight_report.begins(last + 1, zone)
        GROUP BY 1, 2, 3
    ),
    spread AS (
        SELECT place, entry.key AS name, entry.value AS text, currency, sum(jobs)::bigint AS jobs,
               sum(pictures)::bigint AS pictures, sum(gpu_seconds) AS gpu_seconds, sum(charged) AS charged,
               sum(saved) AS saved
        FROM sums CROSS JOIN jsonb_each_text(dimensions) AS entry
        GROUP BY 1, 2, 3, 4
    )
    SELECT ((SELECT safelight_report.day_starts(zone, first, last))[place] AT TIME ZONE zone)::date, name, text,
           currency, jobs, pictures, gpu_seconds, charged, saved
    FROM spread WHERE NOT safelight_report.is_secret(name);
END;
COMMENT ON FUNCTION safelight_report.cost_by_dimension(text, date, date) IS
    'The view of that name for a zone and the days from the first to the last.';

CREATE VIEW safelight_report.cost_by_dimension AS
SELECT * FROM safelight_report.cost_by_dimension(
    safelight_report.zone(), safelight_report.first_day(), safelight_report.last_day()
);
COMMENT ON VIEW safelight_report.cost_by_dimension IS
    'Money and device time by day and by the value of each dimension. A job is in a row of each of its dimensions: '
    'add up the rows of one dimension, never of several.';
COMMENT ON COLUMN safelight_report.cost_by_dimension.dimension IS 'A name that clients gave. Names of secrets are left out.';
