"""The model of a job, for the kinds of worker that ask one. It opens no connection."""

from rowcrew.agent.models import ModelChoice, choose
from rowcrew.domain.job import JobSettings
from rowcrew.errors import InvalidRequest
from rowcrew.workers.kinds import Surroundings


def model_of_job(settings: JobSettings, surroundings: Surroundings) -> ModelChoice:
    """What the job's settings mean by its model. Raises InvalidRequest."""
    if settings.model is None:
        raise InvalidRequest(
            "no model is chosen", hint="add --model, such as --model openai:gpt-5 or --model local"
        )
    return choose(
        settings.model,
        settings.base_url,
        model_providers=surroundings.model_providers,
        prices=surroundings.prices,
        home=surroundings.home,
    )
