"""What a model is told of each job tool: when to use it, what it answers, what comes next. Texts only."""

SPAWN_AGENTS = (
    "Run one worker agent over every row of a CSV file, many at a time, and collect one JSON result "
    "per row in a new CSV file: the input's columns, then status, last_error, result_json and one "
    "result.<property> column for each property of output_schema. Use it when the same task has to "
    "be done for many rows; put what the rows differ in into the CSV first. It checks everything "
    "before the first row, creates a durable job, runs it and waits for its end. Answers {job_id, "
    "status, output_csv_path, total_items, completed_items, failed_items, job_error, "
    "failed_item_errors (at most 5)}. If the answer has `next`, the job still runs: call "
    "wait_agent_job. The same job is never started twice while it is unfinished; after an "
    "interruption go on with run_agent_job."
)

RUN_JOB = (
    "Start a job that has not run yet, or resume one that was paused, cancelled or interrupted. "
    "Rows that are done are not run again. Returns at once with {job_id, started, status, …counts}; "
    "call wait_agent_job to wait. started is false, with the reason, when the job already runs here "
    "or has no row left to run."
)

JOB_STATUS = (
    "Look where a job stands, without waiting: {job_id, status, total_items, pending_items, "
    "running_items, completed_items, failed_items, output_csv_path, runner_active}. status is "
    "pending, running, paused, completed, failed or cancelled; completed means every row has ended, "
    "failed rows included. running with runner_active: false means that the process which ran it has "
    "died: call run_agent_job."
)

WAIT_FOR_JOB = (
    "Wait until a job has ended or is paused, but at most timeout_ms. Answers {status, timed_out}: "
    "status is what get_agent_job_status answers; timed_out: true means that the job still runs, so "
    "call it again."
)

EXPORT_JOB = (
    "Write a job's output CSV as it stands now, in any state; every row is in it. A finished job "
    "has written its own already, unless auto_export was false. Answers {job_id, output_csv_path, "
    "row_count}."
)

REPORT_RESULT = (
    "Report the result of your job item. Call it exactly once, when the work is done; then stop. If "
    "it answers accepted: false, put right what the reason says and call it again."
)
