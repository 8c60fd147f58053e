-- The audit log is asked by who acted, by what was done and by what it was done to; the newest first each time.

CREATE INDEX audit_log_actor ON audit_log (actor, seq);
CREATE INDEX audit_log_action ON audit_log (action, seq);
CREATE INDEX audit_log_target ON audit_log (target, seq);
