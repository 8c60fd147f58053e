-- Times are gathered by whole sets of dimensions, then by each dimension: nothing is sorted but what a percentile needs.
-- A day at once, so that it fits into memory.
CREATE FUNCTION safelight_report.latency_by_dimension(zone text, first date, last date)
RETURNS TABLE (day date, dimension text, value text, jobs bigint, p50_s double precision, p90_s double precision)
LANGUAGE sql STABLE SECURITY DEFINER SET jit = off SET work_mem = '64MB'
BEGIN ATOMIC
    SELECT (bounds[1] AT TIME ZONE zone)::date, spread.name, spread.value, ranked.jobs,
           ranked.ranks[1]::double precision / 1000000, ranked.ranks[2]::double precision / 1000000
    FROM (
        SELECT ARRAY[since, lead(since) OVER (ORDER BY since)] AS bounds
        FROM unnest(safelight_report.bounds(zone, first, last)) AS since
    ) AS day
    CROSS JOIN LATERAL (
        SELECT part.name, part.value, array_agg(ROW(took)) AS parts
        FROM (
            SELECT name, value, took FROM usage_by_dimension JOIN usage_summed(bounds) USING (hour)
            WHERE took IS NOT NULL
            UNION ALL
            SELECT entry.key, entry.value, took
            FROM (
                SELECT dimensions, array_agg((extract(epoch FROM at - wanted_at) * 1000000)::bigint) AS took
                FROM usage_gaps(bounds) AS gap
                CROSS JOIN LATERAL (SELECT * FROM usage WHERE at >= gap.since AND at < gap.until) AS attempt
                WHERE wanted_at IS NOT NULL GROUP BY dimensions
            ) AS live CROSS JOIN jsonb_each_text(dimensions) AS entry
        ) AS part
        GROUP BY 1, 2
    ) AS spread
    CROSS JOIN LATERAL (
        SELECT count(*) AS jobs, percentile_disc(ARRAY[0.5, 0.9]) WITHIN GROUP (ORDER BY one) AS ranks
        FROM (SELECT unnest(part.times) AS one FROM unnest(parts) AS part (times bigint[])) AS unpacked
    ) AS ranked
    WHERE bounds[2] IS NOT NULL AND NOT safelight_report.is_secret(spread.name);
END;
COMMENT ON FUNCTION safelight_report.latency_by_dimension(text, date, date) IS
    'The view of that name for a zone and the days from the first to the last.';

CREATE VIEW safelight_report.latency_by_dimension AS
SELECT * FROM safelight_report.latency_by_dimension(
    safelight_report.zone(), safelight_report.first_day(), safelight_report.last_day()
);
COMMENT ON VIEW safelight_report.latency_by_dimension IS
    'Completion times of rendered and joined jobs by day and the value of each dimension, in seconds.';
COMMENT ON COLUMN safelight_report.latency_by_dimension.p50_s IS 'Half of the jobs had their pictures by then.';
COMMENT ON COLUMN safelight_report.latency_by_dimension.p90_s IS 'Nine in ten jobs had their pictures by then.';
