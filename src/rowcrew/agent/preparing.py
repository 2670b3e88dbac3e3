"""Models that prepare settings and schemas once, not with every request. They ask as the library's do.

A job asks its model thousands of times with the same tools and the same output schema, and the library's walk
through their schemas takes about as long as sending the request.
"""

from typing import Any

from openai.types.chat import ChatCompletion
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.settings import ModelSettings

from rowcrew.agent.openai_answers import CheckedCompletion

# Jobs with different schemas may share a model; few do at a time.
_REMEMBERED = 16
_Request = tuple[ModelSettings | None, ModelRequestParameters]


class PreparingOnce(Model[Any]):
    """For a model's class. Settings and parameters that are the same objects were prepared before."""

    _prepared: dict[tuple[int, int], tuple[_Request, _Request]] | None = None

    def prepare_request(
        self, model_settings: ModelSettings | None, model_request_parameters: ModelRequestParameters
    ) -> _Request:
        if self._prepared is None:
            self._prepared = {}
        key = (id(model_settings), id(model_request_parameters))
        # The first of the pair keeps its objects alive, so that no others come to have their ids.
        known = self._prepared.get(key)
        if known is None:
            asked = (model_settings, model_request_parameters)
            known = (asked, super().prepare_request(*asked))
            if len(self._prepared) >= _REMEMBERED:
                self._prepared.clear()
            self._prepared[key] = known
        return known[1]


class ChatModel(PreparingOnce, OpenAIChatModel):
    """OpenAI's older interface, which most other servers speak."""

    def _validate_completion(self, response: ChatCompletion) -> Any:
        return response if isinstance(response, CheckedCompletion) else super()._validate_completion(response)


class ResponsesModel(PreparingOnce, OpenAIResponsesModel):
    """OpenAI's newer interface."""
