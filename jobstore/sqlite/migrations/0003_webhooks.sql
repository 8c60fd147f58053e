-- Webhooks: endpoints of API keys, and what is to be delivered. An event and its deliveries are one transaction.

CREATE TABLE webhook_endpoint (
    id               TEXT PRIMARY KEY,
    -- The API key whose jobs it hears of; NULL for jobs without a key.
    key_id           TEXT,
    url              TEXT NOT NULL,
    -- Scheme, host and port of the URL: what deliveries are held back by.
    origin           TEXT NOT NULL,
    description      TEXT NOT NULL DEFAULT '',
    events           TEXT NOT NULL,
    secret           TEXT NOT NULL,
    -- The secret before the last rotation signs beside the new one until then.
    previous_secret  TEXT,
    previous_until   INTEGER,
    created_at       INTEGER NOT NULL,
    -- The first failure since the last success.
    failing_since    INTEGER,
    disabled_at      INTEGER,
    reason           TEXT NOT NULL DEFAULT ''
);
CREATE INDEX webhook_endpoint_key ON webhook_endpoint (key_id);

CREATE TABLE webhook_delivery (
    seq              INTEGER PRIMARY KEY AUTOINCREMENT,
    -- The message's webhook-id, the same in every try.
    id               TEXT NOT NULL UNIQUE,
    -- NULL: to the address that the job itself names.
    endpoint_id      TEXT,
    job_id           TEXT,
    key_id           TEXT,
    origin           TEXT NOT NULL,
    type             TEXT NOT NULL,
    -- The job's event that it tells of.
    event            TEXT NOT NULL DEFAULT '{}',
    -- The body, once it was made.
    payload          TEXT,
    state            TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'failed')),
    attempts         INTEGER NOT NULL DEFAULT 0,
    -- Attempts from before it was last asked to be delivered anew.
    attempts_before  INTEGER NOT NULL DEFAULT 0,
    -- When it is due; while it is being sent, when others may take it for lost.
    next_at          INTEGER NOT NULL,
    status           INTEGER,
    last_error       TEXT,
    created_at       INTEGER NOT NULL,
    tried_at         INTEGER,
    delivered_at     INTEGER
);
CREATE INDEX webhook_delivery_due ON webhook_delivery (next_at) WHERE state = 'pending';
CREATE INDEX webhook_delivery_pending ON webhook_delivery (key_id) WHERE state = 'pending';
CREATE INDEX webhook_delivery_waiting ON webhook_delivery (endpoint_id) WHERE state = 'pending';
CREATE INDEX webhook_delivery_key ON webhook_delivery (key_id, seq);
CREATE INDEX webhook_delivery_job ON webhook_delivery (job_id);
CREATE INDEX webhook_delivery_age ON webhook_delivery (created_at) WHERE state <> 'pending';

-- {"url", "origin", "events", "signed", "secret"}
ALTER TABLE job ADD COLUMN webhook TEXT;

-- Whatever writes an event, by whatever statement, has written the deliveries too. The ids are UUIDs of version 4.
-- Where 10,000 of a key are pending, further ones are written as failed: they can be listed, and asked for anew.
CREATE TRIGGER webhook_outbox AFTER INSERT ON job_event
BEGIN
    INSERT INTO webhook_delivery (id, endpoint_id, job_id, key_id, origin, type, event, next_at, created_at,
                                  state, last_error)
    SELECT lower(hex(randomblob(4))) || '-' || lower(hex(randomblob(2))) || '-4' || substr(lower(hex(randomblob(2))), 2)
               || '-' || substr('89ab', 1 + (random() & 3), 1) || substr(lower(hex(randomblob(2))), 2) || '-'
               || lower(hex(randomblob(6))),
           hook.endpoint_id, hook.job_id, hook.key_id, hook.origin, told.type, NEW.data, NEW.at, NEW.at,
           iif(hook.is_full, 'failed', 'pending'), iif(hook.is_full, 'too many deliveries of its key were pending', NULL)
    FROM (
        SELECT 'job.' || CASE NEW.data ->> 'state' WHEN 'running' THEN 'started' ELSE NEW.data ->> 'state' END AS type
    ) AS told
    JOIN (
        SELECT *, (
            SELECT count(*) FROM (
                SELECT 1 FROM webhook_delivery WHERE state = 'pending' AND key_id IS wanted.key_id LIMIT 10000
            )
        ) >= 10000 AS is_full
        FROM (
            SELECT NULL AS endpoint_id, job.id AS job_id, job.key_id AS key_id, job.webhook ->> 'origin' AS origin,
                   job.webhook ->> 'events' AS events
            FROM job WHERE job.id = NEW.job_id AND job.webhook IS NOT NULL
            UNION ALL
            SELECT endpoint.id, job.id, job.key_id, endpoint.origin, endpoint.events
            FROM job JOIN webhook_endpoint AS endpoint ON endpoint.key_id IS job.key_id AND endpoint.disabled_at IS NULL
            WHERE job.id = NEW.job_id
        ) AS wanted
    ) AS hook ON EXISTS (SELECT 1 FROM json_each(hook.events) WHERE json_each.value = told.type);
END;
