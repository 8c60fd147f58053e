-- What operators look at and ask for: workers that drain and tell of themselves, batches, and searches that stay short.

-- Asked to claim no more.
ALTER TABLE worker ADD COLUMN drain_asked_at INTEGER;
-- It stopped and holds nothing; its row tells for a day which host it was.
ALTER TABLE worker ADD COLUMN left_at INTEGER;
-- What it told of itself with its last beat.
ALTER TABLE worker ADD COLUMN report TEXT CHECK (length(report) <= 8192);

-- How many pictures shared the attempt's steps on the average, the job's own among them; NULL where nobody could tell.
ALTER TABLE usage ADD COLUMN batch_rows REAL;

-- Up to 16 jobs that shared steps with the render that gave the pictures.
ALTER TABLE job ADD COLUMN batch_mates TEXT;

-- What ended badly, newest first: few among the many.
CREATE INDEX job_spoilt ON job (seq) WHERE state IN ('failed', 'dead', 'canceled');

-- What can be sent anew at once, the oldest first: few among the many, too.
CREATE INDEX webhook_delivery_failed ON webhook_delivery (seq) WHERE state = 'failed';
