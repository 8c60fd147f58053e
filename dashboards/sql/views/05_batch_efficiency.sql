CREATE FUNCTION safelight_report.batch_efficiency(zone text, first date, last date)
RETURNS TABLE (
    day date, model text, device text, pictures bigint, gpu_seconds numeric, gpu_seconds_a_picture numeric,
    batch_rows numeric, wasted_gpu_seconds numeric
) LANGUAGE sql STABLE SECURITY DEFINER SET jit = off SET work_mem = '64MB'
BEGIN ATOMIC
    WITH span AS MATERIALIZED (SELECT safelight_report.bounds(zone, first, last) AS bounds),
    whole AS MATERIALIZED (SELECT hour, place FROM span CROSS JOIN LATERAL usage_summed(bounds)),
    gap AS MATERIALIZED (SELECT since, until FROM span CROSS JOIN LATERAL usage_gaps(bounds)),
    fact AS (
        SELECT place, model, device, cache, outcome, rendered, gpu_seconds, batched_seconds, row_seconds
        FROM usage_by_device JOIN whole USING (hour) WHERE gpu_seconds > 0
        UNION ALL
        SELECT width_bucket(at, (SELECT bounds FROM span)), model, device, cache, outcome, pictures, gpu_seconds,
               CASE WHEN batch_rows IS NOT NULL THEN gpu_seconds END, gpu_seconds * batch_rows::numeric
        FROM gap CROSS JOIN LATERAL (SELECT * FROM usage WHERE at >= gap.since AND at < gap.until) AS attempt
        WHERE gpu_seconds > 0
    ),
    sums AS (
        SELECT place, model, nullif(device, '') AS device,
               sum(rendered) FILTER (WHERE cache = 'miss')::bigint AS pictures, sum(gpu_seconds) AS gpu_seconds,
               round(sum(row_seconds) / nullif(sum(batched_seconds), 0), 3) AS batch_rows,
               coalesce(sum(gpu_seconds) FILTER (WHERE outcome <> 'succeeded'), 0) AS wasted
        FROM fact GROUP BY place, model, device
    )
    SELECT ((SELECT bounds FROM span)[place] AT TIME ZONE zone)::date, model, device, pictures, gpu_seconds,
           round(gpu_seconds / nullif(pictures, 0), 6), batch_rows, wasted
    FROM sums;
END;
COMMENT ON FUNCTION safelight_report.batch_efficiency(text, date, date) IS
    'The view of that name for a zone and the days from the first to the last.';

CREATE VIEW safelight_report.batch_efficiency AS
SELECT * FROM safelight_report.batch_efficiency(
    safelight_report.zone(), safelight_report.first_day(), safelight_report.last_day()
);
COMMENT ON VIEW safelight_report.batch_efficiency IS 'How much device time a picture took, and in what company, by day.';
COMMENT ON COLUMN safelight_report.batch_efficiency.gpu_seconds_a_picture IS
    'Device time a picture, that of attempts without pictures included.';
COMMENT ON COLUMN safelight_report.batch_efficiency.batch_rows IS
    'How many pictures shared a step, on the average over device time; NULL where nobody told.';
COMMENT ON COLUMN safelight_report.batch_efficiency.wasted_gpu_seconds IS 'Device time of attempts that brought no pictures.';
