-- For the query `lingering`: after a crash the few attempts with a process that ended last, out of any number.
CREATE INDEX agent_job_attempts_with_process ON agent_job_attempts (job_id, ended_at_ms) WHERE pid IS NOT NULL;
