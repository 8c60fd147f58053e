-- Sums of the ledger by whole hours, so that a report of a year reads a fraction of its rows.
--
-- An hour's sums count only while usage_hour says so. Whatever changes an hour's rows takes that back in its own
-- transaction; then reports read these rows themselves, until the hour is summed up anew. So a report is the ledger's
-- sum at every moment. docs/costs.md tells more.

CREATE TABLE usage_hour (
    hour    timestamptz PRIMARY KEY,
    summed  boolean NOT NULL DEFAULT false
);
CREATE INDEX usage_hour_due ON usage_hour (hour) WHERE NOT summed;

-- took: how long each job took, from wanted_at to at, in microseconds. All of them, for percentiles can't be added up.
CREATE TABLE usage_by_owner (
    hour         timestamptz NOT NULL,
    key_id       uuid,
    team         text,
    customer     text,
    model        text NOT NULL,
    lane         text NOT NULL,
    currency     text NOT NULL,
    jobs         integer NOT NULL,
    attempts     integer NOT NULL,
    pictures     bigint NOT NULL,
    gpu_seconds  numeric NOT NULL,
    charged      numeric NOT NULL,
    saved        numeric NOT NULL,
    took         bigint[]
);
CREATE INDEX usage_by_owner_hour ON usage_by_owner (hour);

CREATE TABLE usage_by_device (
    hour             timestamptz NOT NULL,
    model            text NOT NULL,
    lane             text NOT NULL,
    device           text NOT NULL,
    cache            text NOT NULL,
    outcome          text NOT NULL,
    currency         text NOT NULL,
    attempts         integer NOT NULL,
    pictures         bigint NOT NULL,
    gpu_seconds      numeric NOT NULL,
    charged          numeric NOT NULL,
    saved            numeric NOT NULL,
    -- Pictures that took device time.
    rendered         bigint NOT NULL,
    -- Device time of attempts of which batch_rows is known, and the same times batch_rows.
    batched_seconds  numeric,
    row_seconds      numeric,
    took             bigint[]
);
CREATE INDEX usage_by_device_hour ON usage_by_device (hour);

-- An attempt is in a row for each of its dimensions.
CREATE TABLE usage_by_dimension (
    hour         timestamptz NOT NULL,
    name         text NOT NULL,
    value        text,
    model        text NOT NULL,
    currency     text NOT NULL,
    jobs         integer NOT NULL,
    attempts     integer NOT NULL,
    pictures     bigint NOT NULL,
    gpu_seconds  numeric NOT NULL,
    charged      numeric NOT NULL,
    saved        numeric NOT NULL,
    took         bigint[]
);
CREATE INDEX usage_by_dimension_hour ON usage_by_dimension (hour);

-- Small numbers, which compression costs more than it saves.
ALTER TABLE usage_by_owner ALTER COLUMN took SET STORAGE EXTERNAL;
ALTER TABLE usage_by_device ALTER COLUMN took SET STORAGE EXTERNAL;
ALTER TABLE usage_by_dimension ALTER COLUMN took SET STORAGE EXTERNAL;

-- ON CONFLICT waits for whoever sums the hour up, and whoever sums it up waits for this: neither misses the other.
CREATE FUNCTION usage_changed(hours timestamptz[]) RETURNS void LANGUAGE sql SET search_path FROM CURRENT AS $$
INSERT INTO usage_hour (hour) SELECT DISTINCT hour FROM unnest(hours) AS hour ORDER BY hour
ON CONFLICT (hour) DO UPDATE SET summed = false
$$;

CREATE FUNCTION usage_came_late() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    came_to CONSTANT timestamptz := date_trunc('hour', NEW.at, 'UTC');
BEGIN
    -- Once a transaction is enough.
    IF NOT EXISTS (
        SELECT FROM usage_hour WHERE hour = came_to AND NOT summed AND xmin = pg_current_xact_id()::xid
    ) THEN
        PERFORM usage_changed(ARRAY[came_to]);
    END IF;
    RETURN NULL;
END
$$;

CREATE FUNCTION usage_went() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM usage_changed(array_agg(DISTINCT date_trunc('hour', at, 'UTC'))) FROM gone;
    RETURN NULL;
END
$$;

CREATE FUNCTION usage_moved() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM usage_changed(array_agg(DISTINCT date_trunc('hour', at, 'UTC')))
    FROM (SELECT at FROM gone UNION ALL SELECT at FROM come) AS moved;
    RETURN NULL;
END
$$;

CREATE FUNCTION usage_emptied() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE usage_hour SET summed = false WHERE summed;
    RETURN NULL;
END
$$;

-- An hour is summed up a minute after its end, at the soonest: what is written at once costs no more than a comparison.
CREATE TRIGGER usage_came_late AFTER INSERT ON usage FOR EACH ROW
    WHEN (NEW.at < clock_timestamp() - interval '1 minute') EXECUTE FUNCTION usage_came_late();
CREATE TRIGGER usage_went AFTER DELETE ON usage REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION usage_went();
CREATE TRIGGER usage_moved AFTER UPDATE ON usage REFERENCING OLD TABLE AS gone NEW TABLE AS come
    FOR EACH STATEMENT EXECUTE FUNCTION usage_moved();
CREATE TRIGGER usage_emptied AFTER TRUNCATE ON usage FOR EACH STATEMENT EXECUTE FUNCTION usage_emptied();

-- Bounds are instants in order: the first ones of days, and the end of the last.
CREATE FUNCTION usage_summed(bounds timestamptz[]) RETURNS TABLE (hour timestamptz, place integer)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT known.hour, width_bucket(known.hour, bounds)
    FROM usage_hour AS known
    WHERE summed AND known.hour >= bounds[1]
      AND known.hour <= bounds[array_upper(bounds, 1)] - interval '1 hour'
      -- A day that begins within an hour, as in India, cuts it.
      AND known.hour NOT IN (
          SELECT date_trunc('hour', bound, 'UTC') FROM unnest(bounds) AS bound
          WHERE bound <> date_trunc('hour', bound, 'UTC')
      );
END;
COMMENT ON FUNCTION usage_summed(timestamptz[]) IS
    'The hours between bounds whose sums count and that no bound cuts, with the number of the bound before each.';

CREATE FUNCTION usage_gaps(bounds timestamptz[]) RETURNS TABLE (since timestamptz, until timestamptz)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    WITH summed AS (SELECT hour FROM usage_summed(bounds)),
    gap AS (
        SELECT hour + interval '1 hour' AS since,
               lead(hour, 1, bounds[array_upper(bounds, 1)]) OVER (ORDER BY hour) AS until
        FROM summed
        UNION ALL
        SELECT bounds[1], coalesce(min(hour), bounds[array_upper(bounds, 1)]) FROM summed
    )
    SELECT since, until FROM gap WHERE since < until;
END;
COMMENT ON FUNCTION usage_gaps(timestamptz[]) IS
    'The spans between bounds that usage_summed leaves out: there the ledger itself is to be read.';
