CREATE FUNCTION safelight_report.usage_by_day(zone text, first date, last date)
RETURNS TABLE (
    day date, model text, currency text, jobs bigint, attempts bigint, failures bigint, pictures bigint,
    gpu_seconds numeric, charged numeric, saved numeric
) LANGUAGE sql STABLE SECURITY DEFINER SET jit = off SET work_mem = '64MB'
BEGIN ATOMIC
    WITH span AS MATERIALIZED (SELECT safelight_report.bounds(zone, first, last) AS bounds),
    whole AS MATERIALIZED (SELECT hour, place FROM span CROSS JOIN LATERAL usage_summed(bounds)),
    gap AS MATERIALIZED (SELECT since, until FROM span CROSS JOIN LATERAL usage_gaps(bounds)),
    fact AS (
        SELECT place, model, currency, outcome, attempts, pictures, gpu_seconds, charged, saved
        FROM usage_by_device JOIN whole USING (hour)
        UNION ALL
        SELECT width_bucket(at, (SELECT bounds FROM span)), model, currency, outcome, 1, pictures, gpu_seconds, charged,
               CASE WHEN outcome = 'succeeded' AND cache <> 'miss' THEN price ELSE 0 END
        FROM gap CROSS JOIN LATERAL (SELECT * FROM usage WHERE at >= gap.since AND at < gap.until) AS attempt
    )
    SELECT ((SELECT bounds FROM span)[place] AT TIME ZONE zone)::date, model, currency,
           coalesce(sum(attempts) FILTER (WHERE outcome = 'succeeded'), 0), sum(attempts),
           coalesce(sum(attempts) FILTER (WHERE outcome IN ('failed', 'lost')), 0), sum(pictures)::bigint,
           sum(gpu_seconds), sum(charged), sum(saved)
    FROM fact GROUP BY place, model, currency;
END;
COMMENT ON FUNCTION safelight_report.usage_by_day(text, date, date) IS
    'The view of that name for a zone and the days from the first to the last.';

CREATE VIEW safelight_report.usage_by_day AS
SELECT * FROM safelight_report.usage_by_day(
    safelight_report.zone(), safelight_report.first_day(), safelight_report.last_day()
);
COMMENT ON VIEW safelight_report.usage_by_day IS 'Jobs, pictures, device time and money by day, model and currency.';
COMMENT ON COLUMN safelight_report.usage_by_day.day IS 'A day as safelight.zone counts it, by when an attempt was settled.';
COMMENT ON COLUMN safelight_report.usage_by_day.jobs IS 'Jobs that got their pictures.';
COMMENT ON COLUMN safelight_report.usage_by_day.attempts IS 'All attempts, hits and joined jobs among them.';
COMMENT ON COLUMN safelight_report.usage_by_day.failures IS 'Attempts that failed, or whose worker was lost.';
COMMENT ON COLUMN safelight_report.usage_by_day.gpu_seconds IS 'Device time of all attempts, of failed ones too.';
COMMENT ON COLUMN safelight_report.usage_by_day.saved IS 'What hits and joined jobs would have come to at most.';
