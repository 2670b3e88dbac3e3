"""Workers that make one schema-constrained model request for each row. No tools and no thread of their own.

An answer that cannot be used is told to the model and asked for again in the same conversation, a bounded
number of times. An answer that ran into the token limit is not: it would only run on again.
"""

import asyncio
import os
from collections.abc import Mapping
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart

from rowcrew.agent.models import ModelChoice, ModelClient
from rowcrew.domain.attempt import Usage
from rowcrew.domain.job import JobSettings
from rowcrew.domain.schema import InvalidResult, parse_answer
from rowcrew.errors import ErrorClass, ModelError
from rowcrew.processes import ProcessIdentity
from rowcrew.store.backlog import Backlog
from rowcrew.workers.contract import Ended, WorkOrder
from rowcrew.workers.kinds import Surroundings
from rowcrew.workers.models import model_of_job

MAX_REPAIRS = 2
DEFAULT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"answer": {"type": "string"}},
    "required": ["answer"],
    "additionalProperties": False,
}
_CUT = "the answer was cut off at the token limit"
_FILTERED = "the provider withheld the answer (content filter)"


async def open_for_job(settings: JobSettings, surroundings: Surroundings) -> "OneshotKind":
    """What a job's settings mean. Raises InvalidRequest."""
    return await open_oneshot(model_of_job(settings, surroundings), backlog=surroundings.backlog)


async def open_oneshot(
    choice: ModelChoice,
    *,
    environment: Mapping[str, str] = os.environ,
    request_timeout: float | None = None,
    backlog: Backlog | None = None,
) -> "OneshotKind":
    """Get a model ready for one-request workers. `request_timeout` is in seconds. Raises InvalidRequest."""
    client = await ModelClient.open(choice, environment=environment, backlog=backlog)
    return OneshotKind(client, request_timeout=request_timeout)


class OneshotKind:
    """Implements WorkerKind on one model client, which it closes."""

    def __init__(self, client: ModelClient, *, request_timeout: float | None = None) -> None:
        self._client = client
        self._request_timeout = request_timeout

    @property
    def max_concurrency(self) -> int | None:
        return self._client.max_concurrency

    @property
    def starts_at_once(self) -> bool:
        return True

    async def start(self, order: WorkOrder) -> "OneshotWorker":
        return OneshotWorker(order, self._client, request_timeout=self._request_timeout)

    async def close(self) -> None:
        await self._client.close()


class OneshotWorker:
    """One attempt. Discipline: `work` owns the one task that asks; `end` and a cancelled `work` cancel it."""

    def __init__(self, order: WorkOrder, client: ModelClient, *, request_timeout: float | None) -> None:
        self._order = order
        self._client = client
        self._request_timeout = request_timeout
        self._asking: asyncio.Task[Ended] | None = None
        self._ending = False
        self._spent = Usage()

    @property
    def process(self) -> ProcessIdentity | None:
        return None

    async def work(self) -> Ended:
        if self._ending:
            return Ended()
        self._asking = asyncio.create_task(self._converse(), name=f"oneshot {self._order.item_id}")
        try:
            await asyncio.wait([self._asking])
        except asyncio.CancelledError:
            self._asking.cancel()
            await asyncio.wait([self._asking])
            raise
        if self._asking.cancelled():
            return Ended(usage=self._spent)
        return self._asking.result()

    async def end(self, grace: float) -> None:
        self._ending = True
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking])

    async def _converse(self) -> Ended:
        schema = self._order.output_schema or DEFAULT_SCHEMA
        messages: list[ModelMessage] = [_first_message(self._order)]
        reason = text = None
        for _ in range(1 + MAX_REPAIRS):
            try:
                answer = await self._client.ask(messages, output_schema=schema, timeout=self._request_timeout)
            except ModelError as error:
                return self._failed(error.error_class, error.message, text, error.retry_after)
            self._spent += answer.usage
            text = answer.response.text or ""
            if answer.response.finish_reason == "length":
                return self._failed(ErrorClass.INVALID_RESULT, _CUT, text)
            if answer.response.finish_reason == "content_filter":
                return self._failed(ErrorClass.REFUSED, _FILTERED, text)
            reason = await self._report(text)
            if reason is None:
                return Ended(usage=self._spent)
            messages += [answer.response, ModelRequest([UserPromptPart(_repair(reason))])]
        return self._failed(ErrorClass.INVALID_RESULT, f"no usable answer: {reason}", text)

    async def _report(self, text: str) -> str | None:
        """Report an answer. None when nothing is left to do; else what must be put right."""
        try:
            result = parse_answer(text)
        except InvalidResult as error:
            return str(error)
        # Whatever becomes of the report, its usage is booked with it.
        spent, self._spent = self._spent, Usage()
        verdict = await self._order.report(result, usage=spent)
        return (verdict.reason or "it was not accepted") if verdict.mendable else None

    def _failed(
        self, error_class: ErrorClass, message: str, raw: str | None, retry_after: float | None = None
    ) -> Ended:
        return Ended(
            error_class,
            message,
            raw_answer=raw,
            retry_after=retry_after,
            provider=self._client.provider,
            usage=self._spent,
        )


def _first_message(order: WorkOrder) -> ModelRequest:
    return ModelRequest([UserPromptPart(order.prompt)])


def _repair(reason: str) -> str:
    return f"That answer cannot be used: {reason}. Answer again with one JSON object and nothing else."
