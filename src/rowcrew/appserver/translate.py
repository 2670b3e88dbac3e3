"""From what rowcrew knows to what the wire says: threads, turns, items, queued turns. It asks nobody."""

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rowcrew.appserver import errors
from rowcrew.appserver.entities import (
    ActiveStatus,
    AgentMessageItem,
    ChangeKind,
    CommandAction,
    CommandExecutionItem,
    CustomSource,
    FileChangeItem,
    FileUpdateChange,
    FullAccessPolicy,
    ImageInput,
    LocalImageInput,
    MentionInput,
    QueuedSubmission,
    ReadOnlyPolicy,
    ReasoningItem,
    SandboxPolicy,
    SessionSource,
    SpawnedSource,
    SubAgentSource,
    TextInput,
    ThreadItem,
    ThreadSpawn,
    ThreadStatus,
    ThreadTokenUsage,
    TokenUsageBreakdown,
    ToolCallItem,
    ToolOutput,
    TurnError,
    UserInput,
    UserMessageItem,
    WireItemStatus,
    WireThread,
    WireThreadStatus,
    WireTurn,
    WorkspaceWritePolicy,
)
from rowcrew.appserver.errors import RpcError
from rowcrew.domain.attempt import Usage
from rowcrew.domain.events import AgentState, AgentStatus, TurnFailure, TurnItem, TurnItemKind, TurnItemStatus
from rowcrew.domain.history import Turn
from rowcrew.domain.queued_turn import QueuedTurn
from rowcrew.domain.thread import Thread
from rowcrew.errors import ErrorClass

SOURCES = {"cli": "cli", "exec": "exec", "appServer": "appServer"}

# Codex's words for what its clients act on.
FAILURES = {
    ErrorClass.RATE_LIMITED: "rateLimitExceeded",
    ErrorClass.ACCOUNT: "unauthorized",
    ErrorClass.PROVIDER: "serverOverloaded",
    ErrorClass.REFUSED: "badRequest",
    ErrorClass.CRASHED: "internalServerError",
}

STATUSES: dict[TurnItemStatus, WireItemStatus] = {
    TurnItemStatus.IN_PROGRESS: "inProgress",
    TurnItemStatus.COMPLETED: "completed",
    TurnItemStatus.FAILED: "failed",
    # The wire has no word for it.
    TurnItemStatus.INTERRUPTED: "failed",
}


def provider_of(model: str | None) -> str:
    """The part of a model's name that says who offers it."""
    return (model or "").partition(":")[0] or "none"


def seconds(milliseconds: int | None) -> int | None:
    return None if milliseconds is None else milliseconds // 1000


# -- threads --------------------------------------------------------------------------------------------


def wire_status(status: AgentStatus | None) -> WireThreadStatus:
    """None for a thread that is not alive here."""
    if status is None or status.state in (AgentState.SHUTDOWN, AgentState.NOT_FOUND):
        return ThreadStatus(type="notLoaded")
    if status.state is AgentState.RUNNING:
        return ActiveStatus()
    return ThreadStatus(type="systemError" if status.state is AgentState.ERRORED else "idle")


def wire_source(thread: Thread) -> SessionSource:
    if thread.parent_id is not None:
        spawned = ThreadSpawn(parent_thread_id=thread.parent_id, depth=thread.depth)
        return SubAgentSource(sub_agent=SpawnedSource(thread_spawn=spawned))
    if thread.source in SOURCES:
        return SOURCES[thread.source]  # type: ignore[return-value]
    return CustomSource(custom=thread.source)


def wire_thread(thread: Thread, status: AgentStatus | None, turns: Sequence[Turn] = ()) -> WireThread:
    return WireThread(
        id=thread.id,
        session_id=thread.id,
        name=thread.name,
        preview=thread.preview,
        cwd=thread.cwd,
        model=thread.model,
        model_provider=provider_of(thread.model),
        source=wire_source(thread),
        status=wire_status(status),
        created_at=thread.created_at_ms // 1000,
        updated_at=thread.updated_at_ms // 1000,
        cli_version=version("rowcrew"),
        parent_thread_id=thread.parent_id,
        forked_from_id=thread.forked_from_id,
        turns=[wire_turn(turn, cwd=thread.cwd) for turn in turns],
    )


def wire_sandbox(mode: str, also_writable: Sequence[Path] = ()) -> SandboxPolicy:
    if mode == "danger-full-access":
        return FullAccessPolicy()
    if mode == "workspace-write":
        return WorkspaceWritePolicy(writable_roots=[str(path) for path in also_writable])
    return ReadOnlyPolicy()


# -- turns ----------------------------------------------------------------------------------------------


def wire_turn(turn: Turn, *, cwd: str) -> WireTurn:
    return WireTurn(
        id=turn.id,
        status=str(turn.status),  # type: ignore[arg-type]
        items=[wire_item(item, cwd=cwd) for item in turn.items],
        error=None if turn.failure is None else wire_failure(turn.failure),
        started_at=seconds(turn.started_at_ms),
        completed_at=seconds(turn.completed_at_ms),
        duration_ms=turn.duration_ms,
    )


def wire_failure(failure: TurnFailure) -> TurnError:
    return TurnError(message=failure.message, codex_error_info=FAILURES.get(failure.error_class, "other"))


def wire_item(item: TurnItem, *, cwd: str) -> ThreadItem:
    content = item.content
    text = str(content.get("text", ""))
    match item.kind:
        case TurnItemKind.USER_MESSAGE:
            return UserMessageItem(id=item.id, content=[TextInput(text=text)])
        case TurnItemKind.AGENT_MESSAGE:
            return AgentMessageItem(id=item.id, text=text)
        case TurnItemKind.REASONING:
            return ReasoningItem(id=item.id, content=[text] if text else [])
        case TurnItemKind.COMMAND:
            return _command(item, cwd)
        case TurnItemKind.FILE_CHANGE:
            changes = [_change(change) for change in content.get("changes", ())]
            return FileChangeItem(id=item.id, changes=changes, status=STATUSES[item.status])
        case TurnItemKind.TOOL_CALL:
            return _tool_call(item)


def _command(item: TurnItem, cwd: str) -> CommandExecutionItem:
    content = item.content
    arguments = content.get("arguments")
    asked = arguments if isinstance(arguments, dict) else {}
    command = str(content.get("command", asked.get("command", "")))
    return CommandExecutionItem(
        id=item.id,
        command=command,
        cwd=str(content.get("folder", cwd)),
        status=STATUSES[item.status],
        command_actions=[CommandAction(command=command)],
        aggregated_output=content.get("output"),
        exit_code=content.get("exit_code"),
        duration_ms=_duration(item),
    )


def _change(change: dict[str, Any]) -> FileUpdateChange:
    kind = change.get("kind")
    return FileUpdateChange(
        path=str(change.get("path", "")),
        kind=ChangeKind(type=kind if kind in ("add", "delete") else "update"),
        diff=str(change.get("diff", "")),
    )


def _tool_call(item: TurnItem) -> ToolCallItem:
    ended = item.status is not TurnItemStatus.IN_PROGRESS
    output = item.content.get("output")
    return ToolCallItem(
        id=item.id,
        tool=str(item.content.get("tool", "")),
        arguments=item.content.get("arguments"),
        status=STATUSES[item.status],
        success=item.status is TurnItemStatus.COMPLETED if ended else None,
        content_items=None if output is None else [ToolOutput(text=str(output))],
        duration_ms=_duration(item),
    )


def _duration(item: TurnItem) -> int | None:
    return None if item.completed_at_ms is None else max(0, item.completed_at_ms - item.started_at_ms)


def wire_usage(last: Usage, total: Usage) -> ThreadTokenUsage:
    return ThreadTokenUsage(total=_breakdown(total), last=_breakdown(last))


def _breakdown(usage: Usage) -> TokenUsageBreakdown:
    return TokenUsageBreakdown(
        total_tokens=usage.input_tokens + usage.output_tokens,
        input_tokens=usage.input_tokens,
        cached_input_tokens=usage.cached_input_tokens,
        output_tokens=usage.output_tokens,
        reasoning_output_tokens=usage.reasoning_tokens,
    )


# -- what users say -------------------------------------------------------------------------------------


def text_of(inputs: Sequence[UserInput]) -> str:
    """The input as the one text that an agent here reads. Raises RpcError for what is no text."""
    parts = []
    for one in inputs:
        match one:
            case TextInput(text=text):
                parts.append(text)
            case MentionInput(name=name, path=path):
                parts.append(f"[{name}]({path})")
            case ImageInput() | LocalImageInput():
                raise RpcError(errors.INVALID_PARAMS, "agents here read text only, no images")
            case _:
                raise RpcError(errors.INVALID_PARAMS, f"input of the type `{one.type}` is not supported")
    text = "\n".join(parts)
    if not text.strip():
        raise RpcError(errors.INVALID_REQUEST, "the input is empty")
    return text


def wire_queued(entry: QueuedTurn) -> QueuedSubmission:
    return QueuedSubmission(
        id=entry.id,
        client_user_message_id=entry.client_id or entry.id,
        input=[TextInput(text=entry.text)],
        status=str(entry.status),  # type: ignore[arg-type]
        failure=entry.failure,
    )
