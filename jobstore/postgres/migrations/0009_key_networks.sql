-- The networks that a key may be used from; NULL for anywhere.
ALTER TABLE api_key ADD COLUMN networks text[] CHECK (cardinality(networks) BETWEEN 1 AND 32);
