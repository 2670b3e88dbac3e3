"""A model that is asked again when its provider was busy, for threads that someone leads. It mends nothing.

Workers of jobs go without: their rows are tried again by the scheduler, which holds all of them together.
"""

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rowcrew.agent.conversation import Answered, Model, TextListener
from rowcrew.clock import Clock
from rowcrew.errors import ErrorClass, ModelError

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.tools import ToolDefinition

PASSING = frozenset({ErrorClass.PROVIDER, ErrorClass.RATE_LIMITED})
TRIES = 5
FIRST_WAIT_SECONDS = 0.5
# Someone waits for the answer: a provider that asks for more is told to the user instead.
LONGEST_WAIT_SECONDS = 60.0


class PatientModel:
    """Implements Model on another one. Cancelling `ask` ends its waits too."""

    def __init__(self, model: Model, clock: Clock, *, rng: random.Random | None = None) -> None:
        self._model = model
        self._clock = clock
        self._rng = rng or random.Random()  # noqa: S311 - jitter, not a secret

    async def ask(
        self,
        messages: "list[ModelMessage]",
        *,
        tools: "Sequence[ToolDefinition]" = (),
        output_schema: dict[str, Any] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the client's own limit for one request
        listener: TextListener | None = None,
    ) -> Answered:
        """As Model.ask, some times over. Raises the last ModelError."""
        tried = 0
        while True:
            try:
                return await self._model.ask(
                    messages,
                    tools=tools,
                    output_schema=output_schema,
                    timeout=timeout,
                    listener=listener,
                )
            except ModelError as error:
                tried += 1
                wait = self._wait(error, tried)
                if error.error_class not in PASSING or tried >= TRIES or wait > LONGEST_WAIT_SECONDS:
                    raise
            await self._clock.sleep(wait)

    def _wait(self, error: ModelError, tried: int) -> float:
        if error.retry_after is not None:
            return float(error.retry_after)
        jitter = self._rng.uniform(0.5, 1.0)
        return jitter * FIRST_WAIT_SECONDS * float(2 ** (tried - 1))
