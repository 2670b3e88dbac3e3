"""A server is asked through the proxy that the environment names; one on this machine is asked directly."""

import os

import pytest
from pydantic_ai.messages import ModelRequest

from rowcrew.agent.models import ModelChoice, ModelClient
from rowcrew.agent.proxies import proxy_for
from rowcrew.errors import InvalidRequest
from rowcrew.testing import ModelServer

PROXY = "http://user:word@proxy.test:3128"


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("environment", "url", "proxy"),
    [
        ({}, "https://api.openai.com/v1", None),
        ({"HTTPS_PROXY": PROXY}, "https://api.openai.com/v1", PROXY),
        ({"https_proxy": PROXY}, "https://api.openai.com/v1", PROXY),
        ({"HTTP_PROXY": PROXY}, "https://api.openai.com/v1", None),
        ({"ALL_PROXY": PROXY}, "https://api.openai.com/v1", PROXY),
        ({"HTTP_PROXY": "proxy.test:3128"}, "http://models.test/v1", "http://proxy.test:3128"),
        ({"ALL_PROXY": PROXY, "NO_PROXY": "models.test"}, "http://eu.models.test:8000/v1", None),
        ({"ALL_PROXY": PROXY, "NO_PROXY": "models.test"}, "http://other.test/v1", PROXY),
        ({"ALL_PROXY": PROXY, "NO_PROXY": "*"}, "https://api.openai.com/v1", None),
        ({"ALL_PROXY": PROXY}, "http://127.0.0.1:8000/v1", None),
        ({"ALL_PROXY": PROXY}, "http://[::1]:8000/v1", None),
        ({"ALL_PROXY": PROXY}, "http://localhost:8000/v1", None),
        ({"ALL_PROXY": PROXY}, "http://192.168.0.7:8000/v1", PROXY),
    ],
)
def test_the_environment_names_the_proxy(
    environment: dict[str, str], url: str, proxy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert proxy_for(url) == proxy


async def test_a_proxy_that_speaks_no_http_is_refused_before_a_row_is_paid_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://user:word@proxy.test:1080")
    with pytest.raises(InvalidRequest) as refused:
        await ModelClient.open(ModelChoice("openai-chat:m", "http://models.test/v1"), environment={})
    assert (refused.value.message, refused.value.hint) == (
        "the proxy 'socks5://user:***@proxy.test:1080' that the environment names cannot be used",
        "name one that speaks HTTP, or add models.test to NO_PROXY",
    )


async def test_requests_and_streams_go_through_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    class Listener:
        def begin(self) -> None:
            pass

        def hear(self, *_: object) -> None:
            pass

    async with ModelServer(["plain", "streamed"]) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.origin)
        # Nobody but the proxy could find this server.
        choice = ModelChoice("openai-chat:m", "http://models.invalid/v1")
        async with await ModelClient.open(choice, environment={"OPENAI_API_KEY": "k"}) as client:
            said = [
                (await client.ask([ModelRequest.user_text_prompt("?")], listener=listener)).response.text
                for listener in (None, Listener())
            ]
    assert said == ["plain", "streamed"]
    assert [received.headers["host"] for received in proxy.requests] == ["models.invalid"] * 2
