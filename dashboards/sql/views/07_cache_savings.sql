CREATE FUNCTION safelight_report.cache_savings(zone text, first date, last date)
RETURNS TABLE (
    day date, model text, currency text, rendered bigint, hits bigint, joined bigint, hit_share numeric,
    charged numeric, saved numeric
) LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT ((SELECT safelight_report.day_starts($1, $2, $3))[place] AT TIME ZONE $1)::date, model, currency, rendered, hits, joined,
       round((hits + joined)::numeric / (rendered + hits + joined), 4), charged, saved
FROM (
    SELECT width_bucket(at, (SELECT safelight_report.day_starts($1, $2, $3))) AS place, model, currency,
           count(*) FILTER (WHERE cache = 'miss') AS rendered, count(*) FILTER (WHERE cache = 'hit') AS hits,
           count(*) FILTER (WHERE cache = 'joined') AS joined, sum(charged) AS charged, sum(saved) AS saved
    FROM safelight_report.attempt
    WHERE at >= safelight_report.begins($2, $1) AND at < safelight_report.begins($3 + 1, $1) AND outcome = 'succeeded'
    GROUP BY 1, 2, 3
) AS sums
$$;
COMMENT ON FUNCTION safelight_report.cache_savings(text, date, date) IS
    'The view of that name for a zone and the days from the first to the last.';

CREATE VIEW safelight_report.cache_savings AS
SELECT * FROM safelight_report.cache_savings(
    safelight_report.zone(), safelight_report.first_day(), safelight_report.last_day()
);
COMMENT ON VIEW safelight_report.cache_savings IS 'What the cache and joined renders saved, by day, model and currency.';
COMMENT ON COLUMN safelight_report.cache_savings.hit_share IS 'Hits and joined jobs among all that got pictures, 0 to 1.';
COMMENT ON COLUMN safelight_report.cache_savings.saved IS
    'What hits and joined jobs would have come to; by device time, at most.';
