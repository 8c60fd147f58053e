-- The ledger's rows of the same dimensions are added up before a dimension is looked at: most of the work is saved so.
-- The names of secrets are left out at the end.
CREATE FUNCTION safelight_report.cost_by_dimension(zone text, first date, last date)
RETURNS TABLE (
    day date, dimension text, value text, currency text, jobs bigint, pictures bigint, gpu_seconds numeric,
    charged numeric, saved numeric
) LANGUAGE sql STABLE SECURITY DEFINER SET jit = off SET work_mem = '64MB'
BEGIN ATOMIC
    WITH span AS MATERIALIZED (SELECT safelight_report.bounds(zone, first, last) AS bounds),
    whole AS MATERIALIZED (SELECT hour, place FROM span CROSS JOIN LATERAL usage_summed(bounds)),
    gap AS MATERIALIZED (SELECT since, until FROM span CROSS JOIN LATERAL usage_gaps(bounds)),
    live AS MATERIALIZED (
        SELECT width_bucket(at, (SELECT bounds FROM span)) AS place, dimensions, currency,
               count(*) FILTER (WHERE outcome = 'succeeded') AS jobs, sum(pictures) AS pictures,
               sum(gpu_seconds) AS gpu_seconds, sum(charged) AS charged,
               coalesce(sum(price) FILTER (WHERE outcome = 'succeeded' AND cache <> 'miss'), 0) AS saved
        FROM gap CROSS JOIN LATERAL (SELECT * FROM usage WHERE at >= gap.since AND at < gap.until) AS attempt
        GROUP BY 1, 2, 3
    ),
    fact AS (
        SELECT place, name, value, currency, jobs, pictures, gpu_seconds, charged, saved
        FROM usage_by_dimension JOIN whole USING (hour)
        UNION ALL
        SELECT place, entry.key, entry.value, currency, jobs, pictures, gpu_seconds, charged, saved
        FROM live CROSS JOIN jsonb_each_text(dimensions) AS entry
    ),
    sums AS MATERIALIZED (
        SELECT place, name, value, currency, sum(jobs)::bigint AS jobs, sum(pictures)::bigint AS pictures,
               sum(gpu_seconds) AS gpu_seconds, sum(charged) AS charged, sum(saved) AS saved
        FROM fact GROUP BY 1, 2, 3, 4
    )
    SELECT ((SELECT bounds FROM span)[place] AT TIME ZONE zone)::date, name, value,
           currency, jobs, pictures, gpu_seconds, charged, saved
    FROM sums WHERE NOT safelight_report.is_secret(name);
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
