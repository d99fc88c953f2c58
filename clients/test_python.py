"""Every Python SDK against every kind of provider."""

from __future__ import annotations

from typing import Any

import pytest

import python_clients
from gateway import MODELS, Gateway
from python_clients import TOLD, TOOL
from upstream.talk import BROKEN, CACHED, READ, REFUSALS, RETRY_AFTER_S, WRITTEN

TEXT = "Grüße, 世界 🦀: an answer in several pieces."
SAY = f">> say {TEXT}"
# One number that JavaScript and floats would spoil, and letters beyond ASCII.
CALL = f'>> call {TOOL} {{"city": "Köln", "days": 9007199254740993}}'
CALLED = (TOOL, {"city": "Köln", "days": 9007199254740993})


@pytest.fixture(scope="session", params=python_clients.ALL, ids=lambda kind: kind.__name__)
def client(request: pytest.FixtureRequest, gateway: Gateway) -> Any:
    return request.param(gateway.url)


@pytest.fixture(params=MODELS)
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["whole", "stream"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_text(client: Any, gateway: Gateway, provider: str, way: str) -> None:
    seen = getattr(client, way)(gateway.model(provider), SAY)
    assert (seen.text, seen.stop, seen.calls) == (TEXT, client.stops[0], [])
    assert (seen.read, seen.cached, seen.written) == (READ, CACHED, WRITTEN)


def test_tools(client: Any, gateway: Gateway, provider: str, way: str) -> None:
    first, second = client.tools(gateway.model(provider), f">> say Let me see.\n{CALL}", way == "stream")
    assert (first.text, first.calls, first.stop) == ("Let me see.", [CALLED], client.stops[1])
    assert (second.text, second.calls, second.stop) == (f"The tools said: {TOLD}", [], client.stops[0])


def test_two_calls_in_one_turn(client: Any, gateway: Gateway, provider: str, way: str) -> None:
    first, second = client.tools(gateway.model(provider), f'{CALL}\n>> call {TOOL} {{"city": "Łódź"}}', way == "stream")
    assert first.calls == [CALLED, (TOOL, {"city": "Łódź"})]
    assert second.text == f"The tools said: {TOLD}; {TOLD}"


@pytest.mark.parametrize("kind", REFUSALS)
def test_refusals(client: Any, gateway: Gateway, provider: str, way: str, kind: str) -> None:
    status, words = REFUSALS[kind]
    if (provider, kind) == ("bedrock", "credential"):
        status = 403
    with pytest.raises(client.kinds[status]) as caught:
        getattr(client, way)(f"{provider}/refuses-{kind}", SAY)
    failure = client.failure(caught.value)
    assert (failure.status, failure.words) == (status, words)
    assert failure.retry_after == (str(RETRY_AFTER_S) if kind == "limit" else None)


def test_a_stream_that_breaks(client: Any, gateway: Gateway, provider: str) -> None:
    """What was said before is kept: the SDK raises, it does not end the answer."""
    with pytest.raises(client.broken) as caught:
        client.stream(f"{provider}/breaks", SAY)
    assert BROKEN in client.failure(caught.value).words


def test_a_stream_that_is_refused_late(client: Any, gateway: Gateway, provider: str) -> None:
    """Nothing was said yet, so that it is an answer with a status."""
    with pytest.raises(client.kinds[500]) as caught:
        client.stream(f"{provider}/refuses-late", SAY)
    failure = client.failure(caught.value)
    assert failure.status is not None and failure.status >= 500 and BROKEN in failure.words
