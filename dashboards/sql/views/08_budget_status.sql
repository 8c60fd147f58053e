CREATE FUNCTION safelight_report.counted_since(period text, rolling boolean, zone text, at timestamptz)
RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT CASE
    WHEN period = 'total' THEN '-infinity'::timestamptz
    -- A rolling window begins with the slice, a 60th of it and at least a second, that its beginning lies in.
    WHEN rolling THEN (
        SELECT to_timestamp(floor((extract(epoch FROM at) - length_s) / slice_s) * slice_s) - interval '1 millisecond'
        FROM (SELECT length_s, greatest(length_s / 60, 1) AS slice_s) AS slice
    )
    WHEN unit IN ('s', 'm', 'h') THEN (
        SELECT midnight + make_interval(secs => (floor(extract(epoch FROM at - midnight) / length_s) * length_s)::float)
        FROM (SELECT safelight_report.begins((at AT TIME ZONE zone)::date, zone) AS midnight) AS day
    )
    ELSE safelight_report.begins(
        date_trunc(
            CASE unit WHEN 'd' THEN 'day' WHEN 'w' THEN 'week' WHEN 'M' THEN 'month' ELSE 'year' END,
            at AT TIME ZONE zone
        )::date, zone
    )
END
FROM (
    SELECT right(period, 1) AS unit,
           CASE WHEN period = 'total' THEN 0 ELSE left(period, -1)::numeric END * CASE right(period, 1)
               WHEN 's' THEN 1 WHEN 'm' THEN 60 WHEN 'h' THEN 3600 WHEN 'd' THEN 86400 ELSE 604800
           END AS length_s
) AS part
$$;
COMMENT ON FUNCTION safelight_report.counted_since(text, boolean, text, timestamptz) IS
    'From when on a quota''s window counts at an instant.';

CREATE VIEW safelight_report.budget_status AS
SELECT
    quota.id AS quota_id, owner_kind, owner, coalesce(api_key.name, owner) AS owner_name, kind, most AS most,
    nullif(currency, '') AS currency, period, rolling, zone, taken.held, taken.used,
    greatest(most - taken.held - taken.used, 0) AS remaining,
    CASE WHEN most > 0 THEN round((taken.held + taken.used) / most, 4) END AS taken_share
FROM quota
LEFT JOIN api_key ON owner_kind = 'key' AND api_key.id::text = owner
CROSS JOIN LATERAL (
    SELECT coalesce(sum(held), 0) AS held, coalesce(sum(used), 0) AS used FROM quota_slice
    WHERE quota_id = quota.id
      AND starts_at >= safelight_report.counted_since(period, rolling, zone, statement_timestamp())
) AS taken;
COMMENT ON VIEW safelight_report.budget_status IS 'Budgets and limits as they stand now, each by its own calendar.';
COMMENT ON COLUMN safelight_report.budget_status.kind IS 'spend: money; requests: submits; concurrency: jobs at once.';
COMMENT ON COLUMN safelight_report.budget_status.held IS 'What unfinished jobs hold.';
COMMENT ON COLUMN safelight_report.budget_status.used IS 'What is used up in the window of now.';
COMMENT ON COLUMN safelight_report.budget_status.taken_share IS 'Held and used of the limit, 1 when it is used up.';
