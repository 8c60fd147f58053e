CREATE FUNCTION safelight_report.usage_by_day(zone text, first date, last date)
RETURNS TABLE (
    day date, model text, currency text, jobs bigint, attempts bigint, failures bigint, pictures bigint,
    gpu_seconds numeric, charged numeric, saved numeric
) LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT ((SELECT safelight_report.day_starts($1, $2, $3))[place] AT TIME ZONE $1)::date, model, currency, jobs, attempts, failures, pictures,
       gpu_seconds, charged, saved
FROM (
    SELECT width_bucket(at, (SELECT safelight_report.day_starts($1, $2, $3))) AS place, model, currency,
           count(*) FILTER (WHERE outcome = 'succeeded') AS jobs, count(*) AS attempts,
           count(*) FILTER (WHERE outcome IN ('failed', 'lost')) AS failures, sum(pictures) AS pictures,
           sum(gpu_seconds) AS gpu_seconds, sum(charged) AS charged, sum(saved) AS saved
    FROM safelight_report.attempt
    WHERE at >= safelight_report.begins($2, $1) AND at < safelight_report.begins($3 + 1, $1)
    GROUP BY 1, 2, 3
) AS sums
$$;
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
