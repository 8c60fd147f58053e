CREATE FUNCTION safelight_report.cost_by_key(zone text, first date, last date)
RETURNS TABLE (
    day date, key_id uuid, key_name text, team text, customer text, currency text, jobs bigint, pictures bigint,
    gpu_seconds numeric, charged numeric, saved numeric
) LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT ((SELECT safelight_report.day_starts($1, $2, $3))[place] AT TIME ZONE $1)::date, sums.key_id, api_key.name, sums.team,
       sums.customer, currency, jobs, pictures, gpu_seconds, charged, saved
FROM (
    SELECT width_bucket(at, (SELECT safelight_report.day_starts($1, $2, $3))) AS place, key_id, team, customer,
           currency,
           count(*) FILTER (WHERE outcome = 'succeeded') AS jobs, sum(pictures) AS pictures,
           sum(gpu_seconds) AS gpu_seconds, sum(charged) AS charged, sum(saved) AS saved
    FROM safelight_report.attempt
    WHERE at >= safelight_report.begins($2, $1) AND at < safelight_report.begins($3 + 1, $1)
    GROUP BY 1, 2, 3, 4, 5
) AS sums
LEFT JOIN safelight_report.api_key ON api_key.id = sums.key_id
$$;
COMMENT ON FUNCTION safelight_report.cost_by_key(text, date, date) IS
    'The view of that name for a zone and the days from the first to the last.';

CREATE VIEW safelight_report.cost_by_key AS
SELECT * FROM safelight_report.cost_by_key(
    safelight_report.zone(), safelight_report.first_day(), safelight_report.last_day()
);
COMMENT ON VIEW safelight_report.cost_by_key IS
    'Money and device time by day, API key, team and customer, as the key had them when the job was submitted.';
COMMENT ON COLUMN safelight_report.cost_by_key.key_id IS 'NULL: without a key.';
