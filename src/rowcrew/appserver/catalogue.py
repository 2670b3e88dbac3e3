"""Every message there is: what each method takes and answers, what a notification holds. It runs nothing."""

from rowcrew.appserver import job_protocol as jobs
from rowcrew.appserver import protocol as wire
from rowcrew.appserver import queue_protocol as queue
from rowcrew.appserver.entities import Wire

# By method: its parameters and its result.
METHODS: dict[str, tuple[type[Wire], type[Wire]]] = {
    "initialize": (wire.InitializeParams, wire.InitializeResponse),
    "job/cancel": (jobs.JobCancelParams, jobs.JobCancelResponse),
    "job/create": (jobs.JobCreateParams, jobs.JobCreateResponse),
    "job/export": (jobs.JobExportParams, jobs.JobExportResponse),
    "job/items": (jobs.JobItemsParams, jobs.JobItemsResponse),
    "job/list": (jobs.JobListParams, jobs.JobListResponse),
    "job/pause": (jobs.JobPauseParams, jobs.JobPauseResponse),
    "job/run": (jobs.JobRunParams, jobs.JobRunResponse),
    "job/status": (jobs.JobStatusParams, jobs.JobStatusResponse),
    "model/list": (wire.ModelListParams, wire.ModelListResponse),
    "thread/archive": (wire.ThreadArchiveParams, wire.Empty),
    "thread/delete": (wire.ThreadDeleteParams, wire.Empty),
    "thread/fork": (wire.ThreadForkParams, wire.ThreadForkResponse),
    "thread/list": (wire.ThreadListParams, wire.ThreadListResponse),
    "thread/loaded/list": (wire.ThreadLoadedListParams, wire.ThreadLoadedListResponse),
    "thread/name/set": (wire.ThreadSetNameParams, wire.Empty),
    "thread/queue/add": (queue.ThreadQueueAddParams, queue.ThreadQueueAddResponse),
    "thread/queue/delete": (queue.ThreadQueueDeleteParams, queue.ThreadQueueDeleteResponse),
    "thread/queue/list": (queue.ThreadQueueListParams, queue.ThreadQueueListResponse),
    "thread/queue/reorder": (queue.ThreadQueueReorderParams, wire.Empty),
    "thread/queue/retry": (queue.ThreadQueueRetryParams, queue.ThreadQueueRetryResponse),
    "thread/queue/start": (queue.ThreadQueueStartParams, queue.ThreadQueueStartResponse),
    "thread/queue/update": (queue.ThreadQueueUpdateParams, queue.ThreadQueueUpdateResponse),
    "thread/read": (wire.ThreadReadParams, wire.ThreadReadResponse),
    "thread/resume": (wire.ThreadResumeParams, wire.ThreadResumeResponse),
    "thread/start": (wire.ThreadStartParams, wire.ThreadStartResponse),
    "thread/unarchive": (wire.ThreadUnarchiveParams, wire.ThreadUnarchiveResponse),
    "thread/unsubscribe": (wire.ThreadUnsubscribeParams, wire.ThreadUnsubscribeResponse),
    "turn/interrupt": (wire.TurnInterruptParams, wire.Empty),
    "turn/start": (wire.TurnStartParams, wire.TurnStartResponse),
    "turn/steer": (wire.TurnSteerParams, wire.TurnSteerResponse),
}

# Every notification there is, with its parameters.
NOTIFICATIONS: dict[str, type[Wire]] = {
    "error": wire.ErrorNotification,
    "item/agentMessage/delta": wire.AgentMessageDeltaNotification,
    "item/completed": wire.ItemCompletedNotification,
    "item/reasoning/textDelta": wire.ReasoningTextDeltaNotification,
    "item/started": wire.ItemStartedNotification,
    "job/completed": jobs.JobCompletedNotification,
    "job/progress": jobs.JobProgressNotification,
    "thread/archived": wire.ThreadArchivedNotification,
    "thread/closed": wire.ThreadClosedNotification,
    "thread/deleted": wire.ThreadDeletedNotification,
    "thread/name/updated": wire.ThreadNameUpdatedNotification,
    "thread/queue/changed": wire.ThreadQueueChangedNotification,
    "thread/started": wire.ThreadStartedNotification,
    "thread/status/changed": wire.ThreadStatusChangedNotification,
    "thread/tokenUsage/updated": wire.ThreadTokenUsageUpdatedNotification,
    "thread/unarchived": wire.ThreadUnarchivedNotification,
    "turn/completed": wire.TurnCompletedNotification,
    "turn/started": wire.TurnStartedNotification,
}
