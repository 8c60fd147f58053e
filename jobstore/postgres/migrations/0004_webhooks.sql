-- Webhooks: endpoints of API keys, and what is to be delivered. An event and its deliveries are one transaction.

CREATE TABLE webhook_endpoint (
    id               uuid PRIMARY KEY,
    -- The API key whose jobs it hears of; NULL for jobs without a key.
    key_id           uuid,
    url              text NOT NULL,
    -- Scheme, host and port of the URL: what deliveries are held back by.
    origin           text NOT NULL,
    description      text NOT NULL DEFAULT '',
    events           text[] NOT NULL,
    secret           text NOT NULL,
    -- The secret before the last rotation signs beside the new one until then.
    previous_secret  text,
    previous_until   timestamptz,
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The first failure since the last success.
    failing_since    timestamptz,
    disabled_at      timestamptz,
    reason           text NOT NULL DEFAULT ''
);
CREATE INDEX webhook_endpoint_key
    ON webhook_endpoint (coalesce(key_id, '00000000-0000-0000-0000-000000000000'::uuid));

CREATE TABLE webhook_delivery (
    seq              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- The message's webhook-id, the same in every try.
    id               uuid NOT NULL UNIQUE DEFAULT gen_random_uuid(),
    -- NULL: to the address that the job itself names.
    endpoint_id      uuid,
    job_id           uuid,
    key_id           uuid,
    origin           text NOT NULL,
    type             text NOT NULL,
    -- The job's event that it tells of.
    event            jsonb NOT NULL DEFAULT '{}',
    -- The body, once it was made.
    payload          text,
    state            text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'failed')),
    attempts         integer NOT NULL DEFAULT 0,
    -- Attempts from before it was last asked to be delivered anew.
    attempts_before  integer NOT NULL DEFAULT 0,
    -- When it is due; while it is being sent, when others may take it for lost.
    next_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    status           integer,
    last_error       text,
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    tried_at         timestamptz,
    delivered_at     timestamptz
) WITH (fillfactor = 70);
-- By key, so that each gets its turn, and then by time, so that what isn't due is not visited.
CREATE INDEX webhook_delivery_due
    ON webhook_delivery (coalesce(key_id, '00000000-0000-0000-0000-000000000000'::uuid), next_at)
    WHERE state = 'pending';
CREATE INDEX webhook_delivery_waiting ON webhook_delivery (endpoint_id) WHERE state = 'pending';
CREATE INDEX webhook_delivery_key ON webhook_delivery (key_id, seq);
CREATE INDEX webhook_delivery_job ON webhook_delivery (job_id);
CREATE INDEX webhook_delivery_age ON webhook_delivery (created_at) WHERE state <> 'pending';

DROP VIEW any_job;
-- {"url", "origin", "events", "signed", "secret"}
ALTER TABLE job ADD COLUMN webhook jsonb;
ALTER TABLE job_archive ADD COLUMN webhook jsonb;
CREATE VIEW any_job AS SELECT * FROM job UNION ALL SELECT * FROM job_archive;

-- Whatever writes an event, by whatever statement, has written the deliveries too. Where 10,000 of a key are pending,
-- further ones are written as failed: they can be listed, and asked for anew.
CREATE FUNCTION webhook_outbox() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    WITH message AS MATERIALIZED (
        SELECT hook.endpoint_id, job.id AS job_id, job.key_id, hook.origin, told.type, told.data, told.at,
               coalesce(job.key_id, '00000000-0000-0000-0000-000000000000'::uuid) AS owner
        FROM (
            SELECT job_id, data, at,
                   'job.' || CASE data ->> 'state' WHEN 'running' THEN 'started' ELSE data ->> 'state' END AS type
            FROM written
        ) AS told
        JOIN job ON job.id = told.job_id
        CROSS JOIN LATERAL (
            SELECT NULL::uuid AS endpoint_id, job.webhook ->> 'origin' AS origin
            WHERE job.webhook IS NOT NULL AND job.webhook -> 'events' ? told.type
            UNION ALL
            SELECT id, endpoint.origin FROM webhook_endpoint AS endpoint
            WHERE coalesce(endpoint.key_id, '00000000-0000-0000-0000-000000000000'::uuid)
                = coalesce(job.key_id, '00000000-0000-0000-0000-000000000000'::uuid)
              AND disabled_at IS NULL AND told.type = ANY(endpoint.events)
        ) AS hook
    ),
    room AS MATERIALIZED (
        SELECT owner, (
            SELECT count(*) FROM (
                SELECT FROM webhook_delivery AS delivery
                WHERE delivery.state = 'pending'
                  AND coalesce(delivery.key_id, '00000000-0000-0000-0000-000000000000'::uuid) = told.owner
                LIMIT 10000
            ) AS waiting
        ) < 10000 AS is_left
        FROM (SELECT DISTINCT owner FROM message) AS told
    )
    INSERT INTO webhook_delivery (endpoint_id, job_id, key_id, origin, type, event, created_at, state, last_error)
    SELECT endpoint_id, job_id, key_id, origin, type, data, at,
           CASE WHEN is_left THEN 'pending' ELSE 'failed' END,
           CASE WHEN NOT is_left THEN 'too many deliveries of its key were pending' END
    FROM message JOIN room USING (owner);
    RETURN NULL;
END
$$;
CREATE TRIGGER webhook_outbox AFTER INSERT ON job_event
    REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION webhook_outbox();
