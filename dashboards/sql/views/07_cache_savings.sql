CREATE FUNCTION safelight_report.cache_savings(zone text, first date, last date)
RETURNS TABLE (
    day date, model text, currency text, rendered bigint, hits bigint, joined bigint, hit_share numeric,
    charged numeric, saved numeric
) LANGUAGE sql STABLE SECURITY DEFINER SET jit = off SET work_mem = '64MB'
BEGIN ATOMIC
    WITH span AS MATERIALIZED (SELECT safelight_report.bounds(zone, first, last) AS bounds),
    whole AS MATERIALIZED (SELECT hour, place FROM span CROSS JOIN LATERAL usage_summed(bounds)),
    gap AS MATERIALIZED (SELECT since, until FROM span CROSS JOIN LATERAL usage_gaps(bounds)),
    fact AS (
        SELECT place, model, currency, cache, attempts, charged, saved
        FROM usage_by_device JOIN whole USING (hour) WHERE outcome = 'succeeded'
        UNION ALL
        SELECT width_bucket(at, (SELECT bounds FROM span)), model, currency, cache, 1, charged,
               CASE WHEN cache <> 'miss' THEN price ELSE 0 END
        FROM gap CROSS JOIN LATERAL (SELECT * FROM usage WHERE at >= gap.since AND at < gap.until) AS attempt
        WHERE outcome = 'succeeded'
    ),
    sums AS (
        SELECT place, model, currency, coalesce(sum(attempts) FILTER (WHERE cache = 'miss'), 0) AS rendered,
               coalesce(sum(attempts) FILTER (WHERE cache = 'hit'), 0) AS hits,
               coalesce(sum(attempts) FILTER (WHERE cache = 'joined'), 0) AS joined,
               sum(charged) AS charged, sum(saved) AS saved
        FROM fact GROUP BY 1, 2, 3
    )
    SELECT ((SELECT bounds FROM span)[place] AT TIME ZONE zone)::date, model, currency, rendered, hits, joined,
           round((hits + joined)::numeric / (rendered + hits + joined), 4), charged, saved
    FROM sums;
END;
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
