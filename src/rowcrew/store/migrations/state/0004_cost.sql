-- What is known of the cost, in billionths of a US dollar. Of requests made before, or by an older program,
-- nothing is: they are not among the priced ones.
ALTER TABLE agent_job_totals ADD COLUMN priced_requests INTEGER NOT NULL DEFAULT 0;
ALTER TABLE agent_job_totals ADD COLUMN cost_nanos INTEGER NOT NULL DEFAULT 0;
ALTER TABLE agent_job_attempts ADD COLUMN priced_requests INTEGER NOT NULL DEFAULT 0;
ALTER TABLE agent_job_attempts ADD COLUMN cost_nanos INTEGER NOT NULL DEFAULT 0;
