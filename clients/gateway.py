"""One node of the program under test, and the providers that it is given."""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upstream.serve import Upstream

# What every client sends as its key.
VIRTUAL_KEY = "sk-bf-of-the-clients"

# Provider -> a model of its kind; conversions look at names. `groq` is called like OpenAI and speaks chat alone, `house`
# is a custom provider that speaks as Anthropic does.
MODELS = {
    "openai": "gpt-4o",
    "azure": "gpt-4o",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-2.5-flash",
    "bedrock": "anthropic.claude-sonnet-4-5-v1:0",
    "cohere": "command-a-03-2025",
    "groq": "llama-3.3-70b-versatile",
    "house": "claude-opus-4-5",
    "vertex": "gemini-2.5-flash",
}
# Of an account that never was; its tokens come from the upstream.
ACCOUNT = Path(__file__).parent.parent / "tests/fixtures/google-account.json"
FAILING = ["refuses-credential", "refuses-limit", "refuses-fault", "refuses-trouble", "refuses-late", "breaks"]


def config(upstream: str) -> dict[str, Any]:
    providers = {name: provider(name, upstream) for name in MODELS}
    providers["house"]["custom_provider_config"] = {"base_provider_type": "anthropic"}
    keys = [{"id": "clients", "name": "clients", "value": VIRTUAL_KEY, "is_active": True}]
    return {
        "version": 2,
        "providers": providers,
        "governance": {"virtual_keys": keys},
        "client": {"enforce_auth_on_inference": True},
    }


def provider(name: str, upstream: str) -> dict[str, Any]:
    """A key that always serves, and one for each way to fail: held keys stay out of the other tests' way."""
    base = f"{upstream}/{name}"
    keys: list[dict[str, Any]] = []
    for at, models in enumerate([["*"], *([model] for model in FAILING)]):
        key: dict[str, Any] = {"id": f"{name}-{at}", "name": f"{name}-{at}", "value": f"sk-of-{name}", "models": models}
        if at == 0:
            key["blacklisted_models"] = FAILING
        if name == "azure":
            key["azure_key_config"] = {"endpoint": base}
        if name == "bedrock":
            key["bedrock_key_config"] = {"region": "eu-central-1", "access_key": "AKIAOFBEDROCK", "secret_key": "secret"}
        if name == "vertex":
            account = {**json.loads(ACCOUNT.read_text()), "token_uri": f"{base}/token"}
            del key["value"]
            key["vertex_key_config"] = {"project_id": "clients", "region": "us-central1", "auth_credentials": json.dumps(account)}
        keys.append(key)
    return {"keys": keys, "network_config": {"base_url": base, "max_retries": 0}}


@dataclass
class Gateway:
    url: str
    log: Path

    def model(self, provider: str) -> str:
        return f"{provider}/{MODELS[provider]}"


class Running:
    """A node and its providers, from `with` to its end."""

    def __init__(self, binary: Path, folder: Path) -> None:
        self.binary, self.folder = binary, folder

    def __enter__(self) -> Gateway:
        self.upstream = Upstream()
        file = self.folder / "config.json"
        file.write_text(json.dumps(config(self.upstream.url), indent=1))
        log = self.folder / "node.log"
        # Port 0: the node says which one it got.
        command = [self.binary, "serve", "--config", file, "--data-dir", self.folder / "data", "--port", "0", "--log-format", "json"]
        with log.open("wb") as out:
            environment = {n: v for n, v in os.environ.items() if not n.startswith("HOLDLINE_")}
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment)
        return Gateway(self.ready(log), log)

    def ready(self, log: Path) -> str:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            assert self.process.poll() is None, f"the node ended:\n{log.read_text()}"
            for line in log.read_text().splitlines():
                if "address" in (said := json.loads(line)["fields"]):
                    return f"http://{said['address']}"
            time.sleep(0.05)
        raise AssertionError(f"the node is not ready after 30 s:\n{log.read_text()}")

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(40)
        self.upstream.shutdown()
