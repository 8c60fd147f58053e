CREATE FUNCTION safelight_report.batch_efficiency(zone text, first date, last date)
RETURNS TABLE (
    day date, model text, device text, pictures bigint, gpu_seconds numeric, gpu_seconds_a_picture numeric,
    batch_rows numeric, wasted_gpu_seconds numeric
) LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT ((SELECT safelight_report.day_starts($1, $2, $3))[place] AT TIME ZONE $1)::date, model, device, pictures, gpu_seconds,
       round(gpu_seconds / nullif(pictures, 0), 6), batch_rows, coalesce(wasted, 0)
FROM (
    SELECT width_bucket(at, (SELECT safelight_report.day_starts($1, $2, $3))) AS place, model, device,
           sum(pictures) FILTER (WHERE cache = 'miss') AS pictures, sum(gpu_seconds) AS gpu_seconds,
           round(sum(gpu_seconds * batch_rows::numeric)
                 / nullif(sum(gpu_seconds) FILTER (WHERE batch_rows IS NOT NULL), 0), 3) AS batch_rows,
           sum(gpu_seconds) FILTER (WHERE outcome <> 'succeeded') AS wasted
    FROM safelight_report.attempt
    WHERE at >= safelight_report.begins($2, $1) AND at < safelight_report.begins($3 + 1, $1) AND gpu_seconds > 0
    GROUP BY 1, 2, 3
) AS sums
$$;
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
