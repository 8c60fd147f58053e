CREATE FUNCTION safelight_report.cost_by_dimension(zone text, first date, last date)
RETURNS TABLE (
    day date, dimension text, value text, currency text, jobs bigint, pictures bigint, gpu_seconds numeric,
    charged numeric, saved numeric
) LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT (at AT TIME ZONE $1)::date, entry.key, entry.value, currency, count(*) FILTER (WHERE outcome = 'succeeded'),
       sum(pictures), sum(gpu_seconds), sum(charged), sum(saved)
FROM safelight_report.attempt CROSS JOIN jsonb_each_text(dimensions) AS entry
WHERE at >= safelight_report.begins($2, $1) AND at < safelight_report.begins($3 + 1, $1)
GROUP BY 1, 2, 3, 4
$$;
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
