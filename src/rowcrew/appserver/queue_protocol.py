"""The messages about queued turns: parameters and results. It carries nothing out."""

from typing import Any

from rowcrew.appserver.entities import QueuedSubmission, UserInput, Wire, WireTurn
from rowcrew.appserver.protocol import PageParams


class ThreadQueueAddParams(Wire):
    """`outputSchema` is rowcrew's own."""

    thread_id: str
    input: list[UserInput]
    client_user_message_id: str | None = None
    output_schema: dict[str, Any] | None = None


class ThreadQueueAddResponse(Wire):
    """`queuedSubmission` is null when this client id was queued before and has left the queue since."""

    queued_submission: QueuedSubmission | None


class ThreadQueueListParams(PageParams):
    thread_id: str


class ThreadQueueListResponse(Wire):
    """`held`: nothing is started by itself until the user starts a turn or calls `thread/queue/start`."""

    data: list[QueuedSubmission]
    next_cursor: str | None
    held: bool


class QueuedSubmissionParams(Wire):
    thread_id: str
    queued_submission_id: str


class ThreadQueueDeleteParams(QueuedSubmissionParams):
    pass


class ThreadQueueRetryParams(QueuedSubmissionParams):
    pass


class ThreadQueueUpdateParams(QueuedSubmissionParams):
    input: list[UserInput]


class QueuedSubmissionResponse(Wire):
    queued_submission: QueuedSubmission


class ThreadQueueUpdateResponse(QueuedSubmissionResponse):
    pass


class ThreadQueueRetryResponse(QueuedSubmissionResponse):
    pass


class ThreadQueueDeleteResponse(Wire):
    deleted: bool


class ThreadQueueReorderParams(Wire):
    thread_id: str
    queued_submission_ids: list[str]


class ThreadQueueStartParams(Wire):
    """Let go of a held queue and start its head. A submission that is named must be the head."""

    thread_id: str
    queued_submission_id: str | None = None


class ThreadQueueStartResponse(Wire):
    turn: WireTurn
