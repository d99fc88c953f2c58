"""Coding agents, headless: a turn that calls a tool and goes on with what the tool said, against every kind of provider."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gateway import MODELS, VIRTUAL_KEY, Gateway

BIN = Path(__file__).parent / "node_modules" / ".bin"
LIMIT_S = 60
MADE = "made by the agent"


class Desk:
    """An empty home and an empty folder to work in."""

    def __init__(self, folder: Path) -> None:
        self.home, self.work = folder / "home", folder / "work"
        self.home.mkdir()
        self.work.mkdir()
        self.file = self.work / "made.txt"

    def run(self, command: list[str], **environment: str) -> list[Any]:
        """What the agent prints, a JSON value a line. It knows nothing of the machine but where programs are."""
        run = subprocess.run(
            command, cwd=self.work, env={"PATH": os.environ["PATH"], "HOME": str(self.home), **environment},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip
        assert run.returncode == 0, f"exit code {run.returncode}\n{run.stdout[-4000:]}\n{run.stderr[-4000:]}"
        return [json.loads(line) for line in run.stdout.splitlines()]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.mark.parametrize("provider", MODELS)
def test_claude_code(gateway: Gateway, desk: Desk, provider: str) -> None:
    arguments = json.dumps({"file_path": str(desk.file), "content": MADE})
    command = [
        str(BIN / "claude"), "-p", f">> think A file, then.\n>> say Let me see.\n>> call Write {arguments}", "--model", gateway.model(provider),
        "--output-format", "json", "--allowedTools", "Write",
    ]  # fmt: skip
    [result] = desk.run(
        command,
        ANTHROPIC_BASE_URL=f"{gateway.url}/anthropic",
        ANTHROPIC_API_KEY=VIRTUAL_KEY,
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
        DISABLE_AUTOUPDATER="1",
    )
    assert desk.file.read_text() == MADE
    assert result["subtype"] == "success" and not result["is_error"], result
    assert result["result"].startswith(f"The tools said: File created successfully at: {desk.file}")
    assert (result["num_turns"], result["stop_reason"]) == (2, "end_turn")


@pytest.mark.parametrize(("provider", "prefix"), [("openai", "/openai/v1"), *((name, "/v1") for name in MODELS)])
def test_codex(gateway: Gateway, desk: Desk, provider: str, prefix: str) -> None:
    config = {
        "model_provider": "holdline",
        "model_providers.holdline": {"name": "Holdline", "base_url": gateway.url + prefix, "env_key": "KEY", "wire_api": "responses"},
        "analytics.enabled": False,
        "check_for_update_on_startup": False,
    }
    settings = [word for name, value in config.items() for word in ("-c", f"{name}={toml(value)}")]
    arguments = json.dumps({"cmd": f"echo {MADE} > {desk.file}; echo it is done"})
    command = [
        str(BIN / "codex"), "exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", *settings,
        "-m", gateway.model(provider), f">> think A file, then.\n>> say Let me see.\n>> call exec_command {arguments}",
    ]  # fmt: skip
    events = desk.run(command, KEY=VIRTUAL_KEY)
    assert desk.file.read_text() == f"{MADE}\n"
    said = [event["item"]["text"] for event in events if event.get("item", {}).get("type") == "agent_message"]
    assert said[0] == "Let me see."
    assert said[1].startswith("The tools said:") and "it is done" in said[1]
    assert events[-1]["type"] == "turn.completed" and events[-1]["usage"]["output_tokens"] == 14


def toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {toml(one)}" for name, one in value.items()) + "}"
    return json.dumps(value)
