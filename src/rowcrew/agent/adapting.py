"""Models that adapt the schemas of a request once, not with every request. They ask as the library's do.

A job asks its model thousands of times with the same tools and the same output schema, and the library's walk
through their schemas takes about as long as sending the request.
"""

from typing import Any

from openai.types.chat import ChatCompletion
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel

from rowcrew.agent.openai_answers import CheckedCompletion

# Jobs with different schemas may share a model; few do at a time.
_REMEMBERED = 16


class AdaptingOnce(Model[Any]):
    """For a model's class: what it was asked for before is told by the parameters being the same object."""

    _adapted: dict[int, tuple[ModelRequestParameters, ModelRequestParameters]] | None = None

    def customize_request_parameters(
        self, model_request_parameters: ModelRequestParameters
    ) -> ModelRequestParameters:
        if self._adapted is None:
            self._adapted = {}
        # The first of the pair keeps its object alive, so that no other one comes to have its id.
        known = self._adapted.get(id(model_request_parameters))
        if known is None:
            known = (model_request_parameters, super().customize_request_parameters(model_request_parameters))
            if len(self._adapted) >= _REMEMBERED:
                self._adapted.clear()
            self._adapted[id(model_request_parameters)] = known
        return known[1]


class ChatModel(AdaptingOnce, OpenAIChatModel):
    """OpenAI's older interface, which most other servers speak."""

    def _validate_completion(self, response: ChatCompletion) -> Any:
        return response if isinstance(response, CheckedCompletion) else super()._validate_completion(response)


class ResponsesModel(AdaptingOnce, OpenAIResponsesModel):
    """OpenAI's newer interface."""
