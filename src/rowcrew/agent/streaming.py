"""One request whose answer is heard piece by piece. It keeps nothing, and never tries twice."""

from typing import Any

from pydantic_ai.direct import model_request_stream
from pydantic_ai.exceptions import ModelAPIError
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from rowcrew.agent.conversation import TextListener
from rowcrew.domain.events import TurnItemKind


class NoFinishReason(EOFError):
    """The answer ended and did not say why. It may be cut off, or the server never says it."""

    def __init__(self) -> None:
        super().__init__("the answer ended in the middle")


async def stream(
    model: Model[Any],
    messages: list[ModelMessage],
    settings: ModelSettings,
    parameters: ModelRequestParameters,
    listener: TextListener,
) -> ModelResponse:
    """The whole answer, after the listener has heard its texts. Raises NoFinishReason."""
    listener.begin()
    try:
        async with model_request_stream(
            model, messages, model_settings=settings, model_request_parameters=parameters
        ) as answer:
            async for event in answer:
                _tell(event, listener)
            response = answer.get()
    except ModelAPIError as error:
        if "ended without a `finish_reason`" in str(error):
            raise NoFinishReason from error
        raise
    # A server that dies may end the stream in good order; only a reason says that the model had finished.
    if response.finish_reason is None:
        raise NoFinishReason
    return response


def _tell(event: ModelResponseStreamEvent, listener: TextListener) -> None:
    match event:
        case PartStartEvent(index=place, part=TextPart(content=text)) if text:
            listener.hear(place, TurnItemKind.AGENT_MESSAGE, text)
        case PartStartEvent(index=place, part=ThinkingPart(content=text)) if text:
            listener.hear(place, TurnItemKind.REASONING, text)
        case PartDeltaEvent(index=place, delta=TextPartDelta(content_delta=text)) if text:
            listener.hear(place, TurnItemKind.AGENT_MESSAGE, text)
        case PartDeltaEvent(index=place, delta=ThinkingPartDelta(content_delta=str(text))) if text:
            listener.hear(place, TurnItemKind.REASONING, text)
        case _:
            pass
