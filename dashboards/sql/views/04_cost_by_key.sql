CREATE FUNCTION safelight_report.cost_by_key(zone text, first date, last date)
RETURNS TABLE (
    day date, key_id uuid, key_name text, team text, customer text, currency text, jobs bigint, pictures bigint,
    gpu_seconds numeric, charged numeric, saved numeric
) LANGUAGE sql STABLE SECURITY DEFINER SET jit = off SET work_mem = '64MB'
BEGIN ATOMIC
    WITH span AS MATERIALIZED (SELECT safelight_report.bounds(zone, first, last) AS bounds),
    whole AS MATERIALIZED (SELECT hour, place FROM span CROSS JOIN LATERAL usage_summed(bounds)),
    gap AS MATERIALIZED (SELECT since, until FROM span CROSS JOIN LATERAL usage_gaps(bounds)),
    fact AS (
        SELECT place, key_id, team, customer, currency, jobs, pictures, gpu_seconds, charged, saved
        FROM usage_by_owner JOIN whole USING (hour)
        UNION ALL
        SELECT width_bucket(at, (SELECT bounds FROM span)), key_id, team, customer, currency,
               (outcome = 'succeeded')::integer, pictures, gpu_seconds, charged,
               CASE WHEN outcome = 'succeeded' AND cache <> 'miss' THEN price ELSE 0 END
        FROM gap CROSS JOIN LATERAL (SELECT * FROM usage WHERE at >= gap.since AND at < gap.until) AS attempt
    ),
    sums AS (
        SELECT place, key_id, team, customer, currency, sum(jobs) AS jobs, sum(pictures)::bigint AS pictures,
               sum(gpu_seconds) AS gpu_seconds, sum(charged) AS charged, sum(saved) AS saved
        FROM fact GROUP BY 1, 2, 3, 4, 5
    )
    SELECT ((SELECT bounds FROM span)[place] AT TIME ZONE zone)::date, sums.key_id, api_key.name, sums.team,
           sums.customer, currency, jobs, pictures, gpu_seconds, charged, saved
    FROM sums LEFT JOIN api_key ON api_key.id = sums.key_id;
END;
COMMENT ON FUNCTION safelight_report.cost_by_key(text, date, date) IS
    'The view of that name for a zone and the days from the first to the last.';

CREATE VIEW safelight_report.cost_by_key AS
SELECT * FROM safelight_report.cost_by_key(
    safelight_report.zone(), safelight_report.first_day(), safelight_report.last_day()
);
COMMENT ON VIEW safelight_report.cost_by_key IS
    'Money and device time by day, API key, team and customer, as the key had them when the job was submitted.';
COMMENT ON COLUMN safelight_report.cost_by_key.key_id IS 'NULL: without a key.';
