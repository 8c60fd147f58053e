-- The networks that a key may be used from; NULL for anywhere.
ALTER TABLE api_key ADD COLUMN networks TEXT CHECK (json_array_length(networks) BETWEEN 1 AND 32);
