"""What the messages are about, as the wire has it: threads, turns, turn items. It translates nothing.

The shapes are those of Codex's app-server v2: names in camelCase, moments in whole seconds unless the name
ends in `Ms`. What a newer client adds to a message of its own is read over.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt
from pydantic.alias_generators import to_camel


class Wire(BaseModel):
    """A shape on the wire. Built by Python names, written and read by camelCase ones."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True, protected_namespaces=()
    )


class Strict(Wire):
    """Parameters of rowcrew's own methods: what it does not know is refused, because it would be lost."""

    model_config = ConfigDict(extra="forbid")


SandboxMode = Literal["read-only", "workspace-write", "danger-full-access"]


class ReadOnlyPolicy(Wire):
    type: Literal["readOnly"] = "readOnly"
    network_access: bool | None = False


class WorkspaceWritePolicy(Wire):
    type: Literal["workspaceWrite"] = "workspaceWrite"
    network_access: bool | None = False
    writable_roots: list[str] | None = Field(default_factory=list)
    exclude_slash_tmp: bool | None = False
    exclude_tmpdir_env_var: bool | None = False


class FullAccessPolicy(Wire):
    type: Literal["dangerFullAccess"] = "dangerFullAccess"


SandboxPolicy = Annotated[
    ReadOnlyPolicy | WorkspaceWritePolicy | FullAccessPolicy, Field(discriminator="type")
]


# -- what a user says -----------------------------------------------------------------------------------


class TextInput(Wire):
    type: Literal["text"] = "text"
    text: str
    # As Codex writes it: the one name here that is not camelCase.
    text_elements: list[Any] | None = Field(default_factory=list, alias="text_elements")


class ImageInput(Wire):
    type: Literal["image"]
    url: str | None = None
    file_id: str | None = None


class LocalImageInput(Wire):
    type: Literal["localImage"]
    path: str


class MentionInput(Wire):
    type: Literal["mention"]
    name: str
    path: str


class SkillInput(Wire):
    type: Literal["skill"]
    name: str
    path: str


UserInput = Annotated[
    TextInput | ImageInput | LocalImageInput | MentionInput | SkillInput, Field(discriminator="type")
]


# -- turn items -----------------------------------------------------------------------------------------

WireItemStatus = Literal["inProgress", "completed", "failed"]


class UserMessageItem(Wire):
    type: Literal["userMessage"] = "userMessage"
    id: str
    content: list[UserInput]
    client_id: str | None = None


class AgentMessageItem(Wire):
    type: Literal["agentMessage"] = "agentMessage"
    id: str
    text: str
    phase: Literal["commentary", "partial_answer", "final_answer"] | None = None


class ReasoningItem(Wire):
    type: Literal["reasoning"] = "reasoning"
    id: str
    summary: list[str] = Field(default_factory=list)
    content: list[str] = Field(default_factory=list)


class CommandAction(Wire):
    type: Literal["unknown"] = "unknown"
    command: str


class CommandExecutionItem(Wire):
    """A shell command. `aggregatedOutput` is left out of `turn/completed`."""

    type: Literal["commandExecution"] = "commandExecution"
    id: str
    command: str
    cwd: str
    status: WireItemStatus
    command_actions: list[CommandAction] = Field(default_factory=list)
    source: Literal["agent"] = "agent"
    aggregated_output: str | None = None
    exit_code: int | None = None
    duration_ms: int | None = None


class ChangeKind(Wire):
    type: Literal["add", "delete", "update"]


class FileUpdateChange(Wire):
    path: str
    kind: ChangeKind
    diff: str


class FileChangeItem(Wire):
    type: Literal["fileChange"] = "fileChange"
    id: str
    changes: list[FileUpdateChange]
    status: WireItemStatus


class ToolOutput(Wire):
    type: Literal["inputText"] = "inputText"
    text: str


class ToolCallItem(Wire):
    """A call of any other tool. `contentItems` is left out of `turn/completed`."""

    type: Literal["dynamicToolCall"] = "dynamicToolCall"
    id: str
    tool: str
    arguments: Any
    status: WireItemStatus
    success: bool | None = None
    content_items: list[ToolOutput] | None = None
    duration_ms: int | None = None


ThreadItem = Annotated[
    UserMessageItem | AgentMessageItem | ReasoningItem | CommandExecutionItem | FileChangeItem | ToolCallItem,
    Field(discriminator="type"),
]


# -- turns and threads ----------------------------------------------------------------------------------

WireTurnStatus = Literal["inProgress", "completed", "interrupted", "failed"]


class TurnError(Wire):
    message: str
    codex_error_info: str | None = None
    additional_details: str | None = None


class WireTurn(Wire):
    id: str
    status: WireTurnStatus
    items: list[ThreadItem] = Field(default_factory=list)
    items_view: Literal["notLoaded", "full"] = "full"
    error: TurnError | None = None
    started_at: int | None = None
    completed_at: int | None = None
    duration_ms: int | None = None


class ThreadStatus(Wire):
    """`idle` and `active` threads are loaded in this server; after a failed turn it is `systemError`."""

    type: Literal["notLoaded", "idle", "systemError"]


class ActiveStatus(Wire):
    type: Literal["active"] = "active"
    active_flags: list[str] = Field(default_factory=list)


WireThreadStatus = Annotated[ThreadStatus | ActiveStatus, Field(discriminator="type")]


class CustomSource(Wire):
    custom: str


class ThreadSpawn(Wire):
    parent_thread_id: str = Field(alias="parent_thread_id")
    depth: int


class SpawnedSource(Wire):
    thread_spawn: ThreadSpawn = Field(alias="thread_spawn")


class SubAgentSource(Wire):
    sub_agent: SpawnedSource


SessionSource = Literal["cli", "exec", "appServer", "unknown"] | SubAgentSource | CustomSource


class WireThread(Wire):
    id: str
    session_id: str
    name: str | None
    preview: str
    cwd: str
    model: str | None
    model_provider: str
    source: SessionSource
    status: WireThreadStatus
    created_at: int
    updated_at: int
    cli_version: str
    ephemeral: bool = False
    # Threads are rows of a database: there is no file of one thread.
    path: str | None = None
    parent_thread_id: str | None = None
    forked_from_id: str | None = None
    turns: list[WireTurn] = Field(default_factory=list)


class TokenUsageBreakdown(Wire):
    total_tokens: NonNegativeInt
    input_tokens: NonNegativeInt
    cached_input_tokens: NonNegativeInt
    output_tokens: NonNegativeInt
    reasoning_output_tokens: NonNegativeInt


class ThreadTokenUsage(Wire):
    total: TokenUsageBreakdown
    last: TokenUsageBreakdown
    model_context_window: int | None = None


class QueuedSubmission(Wire):
    """A queued turn. `status` and `failure` are rowcrew's own: a failed head blocks its thread."""

    id: str
    client_user_message_id: str
    input: list[UserInput]
    status: Literal["pending", "dispatching", "failed"]
    failure: str | None = None
