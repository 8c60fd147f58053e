CREATE FUNCTION safelight_report.latency_by_dimension(zone text, first date, last date)
RETURNS TABLE (day date, dimension text, value text, jobs bigint, p50_s double precision, p90_s double precision)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT (at AT TIME ZONE $1)::date, entry.key, entry.value, count(*),
       percentile_disc(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM at - wanted_at)::double precision),
       percentile_disc(0.9) WITHIN GROUP (ORDER BY extract(epoch FROM at - wanted_at)::double precision)
FROM safelight_report.attempt CROSS JOIN jsonb_each_text(dimensions) AS entry
WHERE at >= safelight_report.begins($2, $1) AND at < safelight_report.begins($3 + 1, $1) AND wanted_at IS NOT NULL
GROUP BY 1, 2, 3
$$;
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
