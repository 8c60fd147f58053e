-- Times are gathered by whole sets of dimensions, then by each dimension: nothing is sorted but what a percentile needs.
-- A day at once, so that it fits into memory.
CREATE FUNCTION safelight_report.latency_by_dimension(zone text, first date, last date)
RETURNS TABLE (day date, dimension text, value text, jobs bigint, p50_s double precision, p90_s double precision)
LANGUAGE sql STABLE SECURITY DEFINER SET jit = off SET work_mem = '64MB'
BEGIN ATOMIC
    SELECT (since AT TIME ZONE zone)::date, spread.name, spread.text, took.jobs, took.percentiles[1], took.percentiles[2]
    FROM (
        SELECT since, lead(since, 1, safelight_report.begins(last + 1, zone)) OVER (ORDER BY since) AS until
        FROM unnest(safelight_report.day_starts(zone, first, last)) AS since
    ) AS day
    CROSS JOIN LATERAL (
        SELECT entry.key AS name, entry.value AS text, array_agg(ROW(times)) AS parts
        FROM (
            SELECT dimensions, array_agg(extract(epoch FROM at - wanted_at)::double precision) AS times
            FROM usage WHERE at >= since AND at < until AND wanted_at IS NOT NULL
            GROUP BY dimensions
        ) AS timed
        CROSS JOIN jsonb_each_text(dimensions) AS entry
        GROUP BY 1, 2
    ) AS spread
    CROSS JOIN LATERAL (
        SELECT count(*) AS jobs, percentile_disc(ARRAY[0.5, 0.9]) WITHIN GROUP (ORDER BY took_s) AS percentiles
        FROM unnest(parts) AS part (times double precision[]) CROSS JOIN unnest(part.times) AS took_s
    ) AS took
    WHERE NOT safelight_report.is_secret(spread.name);
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
