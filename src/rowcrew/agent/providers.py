"""From a model's name to a model of the library, ready to be asked. It asks nothing itself.

Everything that can be known before the first row is refused here: a name that means nothing, a missing key, a
missing package, weights that are not there. Providers are imported only when they are named.
"""

import inspect
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import openai
from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model, infer_model
from pydantic_ai.profiles import JsonSchemaTransformer, ModelProfile, merge_profile
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers import Provider, infer_provider_class
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider
from pydantic_ai.settings import ModelSettings

from rowcrew.agent import embedded
from rowcrew.agent.embedded_schema import narrow
from rowcrew.agent.model_errors import mask, secrets_of
from rowcrew.agent.openai_client import open_client
from rowcrew.agent.preparing import ChatModel, ResponsesModel
from rowcrew.agent.turnstile import Turnstile
from rowcrew.domain.price import Price
from rowcrew.errors import InvalidRequest

LOCAL = "local"
NO_KEY = "no-key-needed"
_OPENAI_PREFIXES = ("openai", "openai-chat", "openai-responses")
_OPENAI_KEY = "OPENAI_API_KEY"
_EXTRAS = {"anthropic": "anthropic"}
# A server that takes a schema may still not show it to the model, or ignore it.
# An answer is whole when the server says why it ends, see streaming.py.
_WHOLE_STREAMS = OpenAIModelProfile(openai_chat_streaming_requires_finish_reason=True)
_SCHEMA_IN_PROMPT = ModelProfile(native_output_requires_schema_in_instructions=True)


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """Which model: a name as the library has it, `local`, `local:<file.gguf>`, or any name with a `base_url`.

    `key_variable` is the environment variable with the key for `base_url`; `wire_api` says which of OpenAI's
    two request shapes that server speaks; None leaves it to the name. `home` is where embedded weights are.
    `price` is the user's own, which wins over any price list.
    """

    name: str
    base_url: str | None = None
    key_variable: str | None = None
    wire_api: Literal["chat", "responses"] | None = None
    home: Path | None = None
    price: Price | None = None


@dataclass(frozen=True, slots=True)
class OpenedModel:
    """A model and what comes with it. `close` gives back connections and memory."""

    model: Model
    provider: str
    secrets: tuple[str, ...]
    close: Callable[[], Awaitable[None]]
    settings: ModelSettings
    max_concurrency: int | None = None
    turnstile: Turnstile = field(default_factory=Turnstile)


async def open_model(choice: ModelChoice, environment: Mapping[str, str]) -> OpenedModel:
    """Get a model ready. Raises InvalidRequest.

    The keys of OpenAI-compatible servers are read from `environment`, those of other providers from the
    process's own.
    """
    name = choice.name.strip()
    if name == LOCAL or name.startswith(f"{LOCAL}:"):
        return await _open_embedded(name, choice, environment)
    if choice.base_url is not None:
        _check_url(choice.base_url)
    prefix, colon, rest = name.partition(":")
    if prefix in _OPENAI_PREFIXES and colon and rest:
        return _open_openai(prefix, rest, choice, environment)
    provider_class = _provider_class(prefix, name) if colon and rest else None
    if provider_class is not None and choice.key_variable is None:
        return await _open_other(name, provider_class, choice, environment)
    if choice.base_url is not None and name:
        return _open_openai(None, name, choice, environment)
    raise InvalidRequest(
        f"{name!r} names no model",
        hint="write provider:model, such as openai:gpt-5 or anthropic:claude-sonnet-4-5, use local, "
        "or add --base-url for a server of your own",
    )


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise InvalidRequest(
            f"the base URL {mask(url)!r} is no address of a server",
            hint="write it whole, such as http://127.0.0.1:8000/v1",
        )


def _provider_class(prefix: str, name: str) -> type[Provider[Any]] | None:
    """The library's class for a provider; None when there is no such provider."""
    try:
        return infer_provider_class(prefix)
    except ValueError:
        return None
    except ImportError as error:
        raise InvalidRequest(
            f"the model {name} needs a package that is not installed", hint=_how_to_install(prefix, error)
        ) from error


def _how_to_install(prefix: str, error: ImportError) -> str:
    if prefix in _EXTRAS:
        return f"pip install 'rowcrew[{_EXTRAS[prefix]}]'"
    extra = re.search(r"pydantic-ai-slim\[([\w-]+)\]", str(error))
    return f"pip install 'pydantic-ai-slim[{extra[1] if extra else prefix}]'"


def _open_openai(
    prefix: str | None, model_name: str, choice: ModelChoice, environment: Mapping[str, str]
) -> OpenedModel:
    base_url = choice.base_url or environment.get("OPENAI_BASE_URL") or None
    variable = choice.key_variable or _OPENAI_KEY
    key = environment.get(variable)
    if not key and (base_url is None or choice.key_variable is not None):
        raise _missing_key(choice.name, variable)
    client = open_client(base_url, key or NO_KEY)
    by_name = "chat" if prefix in (None, "openai-chat") else "responses"
    kind = ChatModel if (choice.wire_api or by_name) == "chat" else ResponsesModel
    provider: Provider[openai.AsyncOpenAI] = (
        OpenAICompatibleProvider("openai-compatible", openai_client=client)
        if prefix is None
        else OpenAIProvider(openai_client=client)
    )
    profile = provider.model_profile(model_name)
    if choice.base_url is not None:
        profile = merge_profile(profile, _SCHEMA_IN_PROMPT)
    profile = merge_profile(profile, _WHOLE_STREAMS)
    return OpenedModel(
        model=kind(model_name, provider=provider, profile=profile),
        provider=urlsplit(base_url).netloc.rpartition("@")[2] if base_url else "openai",
        secrets=secrets_of(environment, key),
        close=client.close,
        settings=ModelSettings(),
        turnstile=client.turnstile,
    )


def _missing_key(name: str, variable: str) -> InvalidRequest:
    return InvalidRequest(
        f"the model {name} needs {variable}, which is not set in the environment",
        hint="or use --model local, or --base-url for a server of your own",
    )


async def _open_other(
    name: str, provider_class: type[Provider[Any]], choice: ModelChoice, environment: Mapping[str, str]
) -> OpenedModel:
    """A provider that is not OpenAI's own: the library reads its settings from the process's environment."""
    prefix = name.partition(":")[0]
    make: Callable[..., Provider[Any]] = provider_class
    arguments: dict[str, Any] = {}
    if choice.base_url is not None:
        if "base_url" not in inspect.signature(provider_class.__init__).parameters:
            raise InvalidRequest(f"models of {prefix} take no base URL", hint="leave --base-url out")
        arguments["base_url"] = choice.base_url
    try:
        try:
            model = infer_model(name, lambda _: make(**arguments))
        except UserError:
            if choice.base_url is None:
                raise
            model = infer_model(name, lambda _: make(**arguments, api_key=NO_KEY))
    except ImportError as error:
        raise InvalidRequest(
            f"the model {name} needs a package that is not installed", hint=_how_to_install(prefix, error)
        ) from error
    except UserError as error:
        variable = re.search(r"`([A-Z][A-Z0-9]*_[A-Z0-9_]+)`", str(error))
        if variable is not None:
            raise _missing_key(name, variable[1]) from error
        raise InvalidRequest(f"the model {name} cannot be used: {mask(str(error))}") from error
    client: Any = getattr(model, "client", None)
    if hasattr(client, "max_retries"):
        with suppress(AttributeError):
            client.max_retries = 0
    await model.__aenter__()

    async def close() -> None:
        await model.__aexit__(None, None, None)

    return OpenedModel(
        model=model,
        provider=prefix,
        secrets=secrets_of({**os.environ, **environment}),
        close=close,
        settings=ModelSettings(),
    )


class _NarrowSchema(JsonSchemaTransformer):
    """Lets only plain schemas reach the embedded model, of tools too."""

    def walk(self) -> dict[str, Any]:
        return narrow(self.schema)

    def transform(self, schema: dict[str, Any]) -> dict[str, Any]:
        return schema


def _home(choice: ModelChoice, environment: Mapping[str, str]) -> Path:
    return choice.home or Path(environment.get("ROWCREW_HOME") or "~/.rowcrew").expanduser()


async def _open_embedded(name: str, choice: ModelChoice, environment: Mapping[str, str]) -> OpenedModel:
    if choice.base_url is not None:
        raise InvalidRequest(
            f"the model {name} runs inside rowcrew and has no base URL",
            hint="leave --base-url out, or name the server's model",
        )
    server = await embedded.EmbeddedServer.open(embedded.find_file(name, _home(choice, environment)))
    client = open_client(server.url, server.key)

    async def close() -> None:
        await client.close()
        await server.close()

    profile = merge_profile(_SCHEMA_IN_PROMPT, ModelProfile(json_schema_transformer=_NarrowSchema))
    provider = OpenAICompatibleProvider(LOCAL, openai_client=client, profile=profile)
    return OpenedModel(
        model=ChatModel(server.file.stem, provider=provider),
        provider=LOCAL,
        secrets=secrets_of({}, server.key),
        close=close,
        settings=ModelSettings(temperature=0.0, max_tokens=embedded.MAX_ANSWER_TOKENS),
        max_concurrency=embedded.MAX_CONCURRENCY,
        turnstile=client.turnstile,
    )
