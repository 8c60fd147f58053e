-- The schema of the reports, and what all of them stand on. Made anew as a whole: whoever reads waits, and sees no gap.

CREATE SCHEMA IF NOT EXISTS safelight_report;
COMMENT ON SCHEMA safelight_report IS
    'Safelight''s reports of usage, costs and times. Without prompts, secrets and their digests. See docs/costs.md.';

CREATE FUNCTION safelight_report.zone() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
RETURN coalesce(nullif(current_setting('safelight.zone', true), ''), 'UTC');
COMMENT ON FUNCTION safelight_report.zone() IS
    'Whose days the views count: SET safelight.zone = ''Europe/Berlin''; UTC without it.';

CREATE FUNCTION safelight_report.first_day() RETURNS date LANGUAGE sql STABLE PARALLEL SAFE
RETURN coalesce(nullif(current_setting('safelight.first_day', true), '')::date, '-infinity');
COMMENT ON FUNCTION safelight_report.first_day() IS
    'The first day that the views read: SET safelight.first_day = ''2026-11-01''; without it all that is kept.';

CREATE FUNCTION safelight_report.last_day() RETURNS date LANGUAGE sql STABLE PARALLEL SAFE
RETURN coalesce(nullif(current_setting('safelight.last_day', true), '')::date, 'infinity');
COMMENT ON FUNCTION safelight_report.last_day() IS
    'The last day that the views read, itself among them: SET safelight.last_day = ''2026-11-30''.';

CREATE FUNCTION safelight_report.begins(day date, zone text) RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE WHEN isfinite(day) THEN (
    SELECT min(instant)
    FROM (
        SELECT day::timestamp AT TIME ZONE zone - make_interval(mins => minutes) AS instant
        FROM generate_series(0, 180, 15) AS minutes
    ) AS candidate
    WHERE (instant AT TIME ZONE zone)::date >= day
) ELSE day::timestamptz END;
COMMENT ON FUNCTION safelight_report.begins(date, text) IS
    'The first instant of a day as a zone counts it, also where a clock change leaves midnight out or brings it twice.';

-- Counting days by a search among their first instants costs a fraction of converting each row's instant.
CREATE FUNCTION safelight_report.bounds(zone text, first date, last date) RETURNS timestamptz[]
LANGUAGE sql STABLE PARALLEL SAFE SECURITY DEFINER
RETURN (
    SELECT array_agg(safelight_report.begins(day::date, zone) ORDER BY day)
    FROM (
        SELECT (min(at) AT TIME ZONE zone)::date AS earliest, (max(at) AT TIME ZONE zone)::date AS latest FROM usage
    ) AS kept
    CROSS JOIN generate_series(
        CASE WHEN earliest IS NOT NULL THEN greatest(first, earliest) END::timestamp, least(last, latest) + 1,
        interval '1 day'
    ) AS day
);
COMMENT ON FUNCTION safelight_report.bounds(text, date, date) IS
    'The first instants of the days from the first to the last, as far as the ledger has rows, and of the one after.';

-- By the words of safelight/telemetry/secrecy.py.
CREATE FUNCTION safelight_report.is_secret(name text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN name IN ('key', 'x-bf-vk') OR name ~ (
    '(^|[^a-z])(apikey|auth|authorization|bearer|cookie|cookies|credential|credentials|passphrase|passwd|password'
    || '|passwords|pwd|secret|secrets|signature|token)([^a-z]|$)'
) OR name ~ '(^|[^a-z])(access|api|encryption|master|private|secret|signing)[^a-z]+key([^a-z]|$)';
COMMENT ON FUNCTION safelight_report.is_secret(text) IS
    'Says whether a dimension is called like a secret: then it is in no view.';

CREATE VIEW safelight_report.attempt WITH (security_barrier = false) AS
SELECT
    at, wanted_at, key_id, team, customer, model, nullif(lane, '') AS lane, nullif(device, '') AS device, outcome,
    error_code, cache, currency, gpu_seconds, price, charged, pictures, batch_rows,
    CASE WHEN outcome = 'succeeded' AND cache <> 'miss' THEN price ELSE 0 END AS saved,
    CASE
        WHEN dimensions::text !~ '(key|vk|auth|bearer|cookie|credential|pass|pwd|secret|signature|token)' THEN dimensions
        ELSE (
            SELECT coalesce(jsonb_object_agg(entry.key, entry.value), '{}') FROM jsonb_each(dimensions) AS entry
            WHERE NOT safelight_report.is_secret(entry.key)
        )
    END AS dimensions
FROM usage;
COMMENT ON VIEW safelight_report.attempt IS 'A row for each settled attempt: the ledger itself, as far as it is to be told.';
COMMENT ON COLUMN safelight_report.attempt.at IS 'When it was settled.';
COMMENT ON COLUMN safelight_report.attempt.wanted_at IS
    'Of a job that got rendered pictures: its submit, or the start that it was scheduled for.';
COMMENT ON COLUMN safelight_report.attempt.outcome IS 'succeeded, failed, canceled, handed_back or lost.';
COMMENT ON COLUMN safelight_report.attempt.cache IS 'miss: rendered; hit: found; joined: another job''s render.';
COMMENT ON COLUMN safelight_report.attempt.price IS 'What the job costs, or costs at most.';
COMMENT ON COLUMN safelight_report.attempt.charged IS 'What it was charged.';
COMMENT ON COLUMN safelight_report.attempt.saved IS 'What a hit or a joined job would have come to at most.';
COMMENT ON COLUMN safelight_report.attempt.batch_rows IS 'How many pictures shared its steps, on the average.';

CREATE VIEW safelight_report.api_key AS SELECT id, name, team, customer, created_at, revoked_at FROM api_key;
COMMENT ON VIEW safelight_report.api_key IS 'API keys by name. Without secrets, digests and hints.';
