"""The messages: the parameters and results of every method, and the notifications. It carries nothing out."""

from typing import Any, Literal

from pydantic import Field, PositiveInt

from rowcrew.appserver.entities import (
    SandboxMode,
    SandboxPolicy,
    ThreadItem,
    ThreadTokenUsage,
    TurnError,
    UserInput,
    Wire,
    WireThread,
    WireThreadStatus,
    WireTurn,
)


class Empty(Wire):
    """No parameters, or nothing to answer but that it is done."""


# -- initialize -----------------------------------------------------------------------------------------


class ClientInfo(Wire):
    name: str
    version: str = ""
    title: str | None = None


class ClientCapabilities(Wire):
    """`experimentalApi` is accepted and changes nothing: every method is open to every client."""

    experimental_api: bool | None = False
    opt_out_notification_methods: list[str] | None = None


class InitializeParams(Wire):
    client_info: ClientInfo
    capabilities: ClientCapabilities | None = None


class ServerInfo(Wire):
    name: str
    version: str


class InitializeResponse(Wire):
    """`serverInfo.version` is that of the Codex whose wire format is spoken; rowcrew's is in `userAgent`."""

    user_agent: str
    server_info: ServerInfo
    codex_home: str
    platform_family: str
    platform_os: str


# -- threads --------------------------------------------------------------------------------------------


class ThreadSettings(Wire):
    """What a thread may be given. Codex's further fields (approvals, personality …) mean nothing here."""

    model: str | None = None
    model_provider: str | None = None
    cwd: str | None = None
    sandbox: SandboxMode | None = None
    base_instructions: str | None = None
    developer_instructions: str | None = None


class ThreadStartParams(ThreadSettings):
    ephemeral: bool | None = None


class ThreadResumeParams(ThreadSettings):
    thread_id: str
    exclude_turns: bool | None = None


class ThreadForkParams(ThreadSettings):
    thread_id: str
    last_turn_id: str | None = None
    ephemeral: bool | None = None
    exclude_turns: bool | None = None


class ThreadStartResponse(Wire):
    """A thread that is loaded now. Agents here never ask for approval: what is not allowed is refused."""

    thread: WireThread
    model: str
    model_provider: str
    cwd: str
    sandbox: SandboxPolicy
    approval_policy: Literal["never"] = "never"
    approvals_reviewer: Literal["user"] = "user"
    instruction_sources: list[str] = Field(default_factory=list)


class ThreadResumeResponse(ThreadStartResponse):
    pass


class ThreadForkResponse(ThreadStartResponse):
    pass


class ThreadIdParams(Wire):
    thread_id: str


class ThreadArchiveParams(ThreadIdParams):
    pass


class ThreadUnarchiveParams(ThreadIdParams):
    pass


class ThreadDeleteParams(ThreadIdParams):
    pass


class ThreadUnsubscribeParams(ThreadIdParams):
    pass


class ThreadReadParams(ThreadIdParams):
    include_turns: bool | None = False


class ThreadSetNameParams(ThreadIdParams):
    name: str


class ThreadResponse(Wire):
    thread: WireThread


class ThreadReadResponse(ThreadResponse):
    pass


class ThreadUnarchiveResponse(ThreadResponse):
    pass


class ThreadUnsubscribeResponse(Wire):
    status: Literal["notLoaded", "notSubscribed", "unsubscribed"]


class PageParams(Wire):
    cursor: str | None = None
    limit: PositiveInt | None = None


class ThreadListParams(PageParams):
    archived: bool | None = None
    search_term: str | None = None
    sort_key: Literal["created_at", "updated_at", "recency_at"] | None = None
    sort_direction: Literal["desc", "asc"] | None = None
    source_kinds: list[str] | None = None


class ThreadListResponse(Wire):
    data: list[WireThread]
    next_cursor: str | None


class ThreadLoadedListParams(PageParams):
    pass


class ThreadLoadedListResponse(Wire):
    data: list[str]
    next_cursor: str | None


# -- turns ----------------------------------------------------------------------------------------------


class TurnStartParams(Wire):
    thread_id: str
    input: list[UserInput]
    client_user_message_id: str | None = None
    output_schema: dict[str, Any] | None = None
    model: str | None = None
    cwd: str | None = None
    sandbox_policy: SandboxPolicy | None = None
    tool_output: dict[str, Any] | None = None


class TurnStartResponse(Wire):
    turn: WireTurn


class TurnSteerParams(Wire):
    thread_id: str
    expected_turn_id: str
    input: list[UserInput]
    client_user_message_id: str | None = None


class TurnSteerResponse(Wire):
    turn_id: str


class TurnInterruptParams(Wire):
    thread_id: str
    turn_id: str


# -- models ---------------------------------------------------------------------------------------------


class ModelListParams(PageParams):
    include_hidden: bool | None = False


class ReasoningEffortOption(Wire):
    reasoning_effort: str
    description: str


class WireModel(Wire):
    id: str
    model: str
    display_name: str
    description: str
    hidden: bool
    is_default: bool
    default_reasoning_effort: str = "none"
    supported_reasoning_efforts: list[ReasoningEffortOption] = Field(default_factory=list)
    input_modalities: list[str] = Field(default_factory=lambda: ["text"])


class ModelListResponse(Wire):
    data: list[WireModel]
    next_cursor: str | None


# -- notifications --------------------------------------------------------------------------------------


class ThreadStartedNotification(Wire):
    thread: WireThread


class ThreadStatusChangedNotification(Wire):
    thread_id: str
    status: WireThreadStatus


class ThreadIdNotification(Wire):
    thread_id: str


class ThreadClosedNotification(ThreadIdNotification):
    pass


class ThreadArchivedNotification(ThreadIdNotification):
    pass


class ThreadUnarchivedNotification(ThreadIdNotification):
    pass


class ThreadDeletedNotification(ThreadIdNotification):
    pass


class ThreadQueueChangedNotification(ThreadIdNotification):
    pass


class ThreadNameUpdatedNotification(ThreadIdNotification):
    thread_name: str | None


class ThreadTokenUsageUpdatedNotification(ThreadIdNotification):
    turn_id: str
    token_usage: ThreadTokenUsage


class TurnStartedNotification(ThreadIdNotification):
    turn: WireTurn


class TurnCompletedNotification(ThreadIdNotification):
    """The one end of a turn, after all its items. Its items come without what commands and tools printed."""

    turn: WireTurn


class ItemStartedNotification(ThreadIdNotification):
    turn_id: str
    item: ThreadItem
    started_at_ms: int


class ItemCompletedNotification(ThreadIdNotification):
    turn_id: str
    item: ThreadItem
    completed_at_ms: int


class AgentMessageDeltaNotification(ThreadIdNotification):
    turn_id: str
    item_id: str
    delta: str


class ReasoningTextDeltaNotification(AgentMessageDeltaNotification):
    content_index: int = 0


class ErrorNotification(ThreadIdNotification):
    turn_id: str
    error: TurnError
    will_retry: bool = False
