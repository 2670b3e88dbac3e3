"""Scripted replies in the shapes of Chat Completions and Responses, plain and streamed. It does no I/O."""

import json
from collections.abc import Iterator
from typing import Any

from rowcrew.testing.answers import CallTool, Failure, Received, Reply

_CREATED = 1_700_000_000
_PIECE = 24  # characters per streamed delta
_HOLLOW: dict[str, dict[str, Any]] = {  # what an output item has not yet when it opens
    "message": {"content": [], "status": "in_progress"},
    "function_call": {"arguments": "", "status": "in_progress"},
    "reasoning": {"summary": []},
}


def plain(received: Received, reply: Reply) -> dict[str, Any]:
    """The whole answer as one JSON object."""
    return (
        _chat(received, reply)
        if received.api == "chat"
        else _response(received, reply, _output(received, reply))
    )


def events(received: Received, reply: Reply) -> Iterator[str]:
    """The answer as server-sent events, each complete with its blank line."""
    return _chat_events(received, reply) if received.api == "chat" else _response_events(received, reply)


def error(failure: Failure) -> dict[str, Any]:
    """The body of an HTTP error."""
    return {"error": {"message": failure.message, "type": failure.kind, "param": None, "code": failure.code}}


def models(names: list[str]) -> dict[str, Any]:
    """The answer to GET /v1/models."""
    entries = [{"id": name, "object": "model", "created": _CREATED, "owned_by": "rowcrew"} for name in names]
    return {"object": "list", "data": entries}


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), _PIECE):
        yield text[start : start + _PIECE]


def _arguments(call: CallTool) -> str:
    return (
        call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments, ensure_ascii=False)
    )


def _call_id(received: Received, call: CallTool, index: int) -> str:
    return call.id or f"call_{received.number}_{index}"


def _model(received: Received) -> str:
    return str(received.body.get("model", "scripted"))


# Chat Completions


def _chat_finish(reply: Reply) -> str:
    return reply.finish or ("tool_calls" if reply.calls else "stop")


def _chat_usage(reply: Reply) -> dict[str, Any]:
    return {
        "prompt_tokens": reply.input_tokens,
        "completion_tokens": reply.output_tokens,
        "total_tokens": reply.input_tokens + reply.output_tokens,
        "prompt_tokens_details": {"cached_tokens": reply.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": reply.reasoning_tokens},
    }


def _chat_calls(received: Received, reply: Reply) -> list[dict[str, Any]]:
    return [
        {
            "id": _call_id(received, call, index),
            "type": "function",
            "function": {"name": call.name, "arguments": _arguments(call)},
        }
        for index, call in enumerate(reply.calls)
    ]


def _chat(received: Received, reply: Reply) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.reasoning is not None:
        message["reasoning_content"] = reply.reasoning
    if reply.calls:
        message["tool_calls"] = _chat_calls(received, reply)
    return {
        "id": f"chatcmpl-{received.number}",
        "object": "chat.completion",
        "created": _CREATED,
        "model": _model(received),
        "choices": [{"index": 0, "message": message, "finish_reason": _chat_finish(reply)}],
        "usage": _chat_usage(reply),
    }


def _chat_events(received: Received, reply: Reply) -> Iterator[str]:
    head = {
        "id": f"chatcmpl-{received.number}",
        "object": "chat.completion.chunk",
        "created": _CREATED,
        "model": _model(received),
    }

    def chunk(delta: dict[str, Any], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return _data({**head, "choices": [choice]})

    yield chunk({"role": "assistant", "content": ""})
    if reply.reasoning is not None:
        yield chunk({"reasoning_content": reply.reasoning})
    for piece in _pieces(reply.text or ""):
        yield chunk({"content": piece})
    for index, call in enumerate(_chat_calls(received, reply)):
        arguments = call["function"]["arguments"]
        opening = {**call, "index": index, "function": {"name": call["function"]["name"], "arguments": ""}}
        yield chunk({"tool_calls": [opening]})
        for piece in _pieces(arguments):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, _chat_finish(reply))
    if (received.body.get("stream_options") or {}).get("include_usage"):
        yield _data({**head, "choices": [], "usage": _chat_usage(reply)})
    yield "data: [DONE]\n\n"


# Responses


def _output(received: Received, reply: Reply) -> list[dict[str, Any]]:
    number = received.number
    items: list[dict[str, Any]] = []
    if reply.reasoning is not None:
        summary = [{"type": "summary_text", "text": reply.reasoning}]
        items.append({"type": "reasoning", "id": f"rs_{number}", "summary": summary})
    if reply.text is not None:
        content = [{"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}]
        message = {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": content}
        items.append({**message, "status": "completed"})
    items.extend(
        {
            "type": "function_call",
            "id": f"fc_{number}_{index}",
            "call_id": _call_id(received, call, index),
            "name": call.name,
            "arguments": _arguments(call),
            "status": "completed",
            **({} if call.namespace is None else {"namespace": call.namespace}),
        }
        for index, call in enumerate(reply.calls)
    )
    return items


def _response(received: Received, reply: Reply, output: list[dict[str, Any]]) -> dict[str, Any]:
    body = received.body
    details = None
    if reply.finish is not None:
        details = {"reason": "max_output_tokens" if reply.finish == "length" else reply.finish}
    return {
        "id": f"resp_{received.number}",
        "object": "response",
        "created_at": _CREATED,
        "status": "completed" if details is None else "incomplete",
        "error": None,
        "incomplete_details": details,
        "instructions": body.get("instructions"),
        "metadata": {},
        "model": _model(received),
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools") or [],
        "top_p": 1.0,
        "usage": {
            "input_tokens": reply.input_tokens,
            "input_tokens_details": {"cached_tokens": reply.cached_tokens},
            "output_tokens": reply.output_tokens,
            "output_tokens_details": {"reasoning_tokens": reply.reasoning_tokens},
            "total_tokens": reply.input_tokens + reply.output_tokens,
        },
    }


def _response_events(received: Received, reply: Reply) -> Iterator[str]:
    output = _output(received, reply)
    opened = _response(received, reply, []) | {
        "status": "in_progress",
        "usage": None,
        "incomplete_details": None,
    }
    number = 0

    def event(kind: str, **content: Any) -> str:
        nonlocal number
        text = _data({"type": kind, "sequence_number": number, **content})
        number += 1
        return f"event: {kind}\n{text}"

    yield event("response.created", response=opened)
    yield event("response.in_progress", response=opened)
    for index, item in enumerate(output):
        place = {"output_index": index, "item_id": item["id"]}
        opening = item | _HOLLOW[item["type"]]
        yield event("response.output_item.added", output_index=index, item=opening)
        for kind, content in _item_events(item):
            yield event(kind, **place, **content)
        yield event("response.output_item.done", output_index=index, item=item)
    last = _response(received, reply, output)
    yield event(f"response.{last['status']}", response=last)


def _item_events(item: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What stands between the opening and the end of an item: event name and content."""
    if item["type"] == "function_call":
        for piece in _pieces(item["arguments"]):
            yield "response.function_call_arguments.delta", {"delta": piece}
        done = {"arguments": item["arguments"], "name": item["name"]}
        yield "response.function_call_arguments.done", done
        return
    if item["type"] == "reasoning":
        [part] = item["summary"]
        yield "response.reasoning_summary_part.added", {"summary_index": 0, "part": {**part, "text": ""}}
        yield "response.reasoning_summary_text.delta", {"summary_index": 0, "delta": part["text"]}
        yield "response.reasoning_summary_text.done", {"summary_index": 0, "text": part["text"]}
        yield "response.reasoning_summary_part.done", {"summary_index": 0, "part": part}
        return
    [part] = item["content"]
    yield "response.content_part.added", {"content_index": 0, "part": {**part, "text": ""}}
    for piece in _pieces(part["text"]):
        yield "response.output_text.delta", {"content_index": 0, "delta": piece, "logprobs": []}
    yield "response.output_text.done", {"content_index": 0, "text": part["text"], "logprobs": []}
    yield "response.content_part.done", {"content_index": 0, "part": part}


def _data(content: dict[str, Any]) -> str:
    return f"data: {json.dumps(content, ensure_ascii=False, separators=(',', ':'))}\n\n"
