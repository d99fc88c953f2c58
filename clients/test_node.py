"""The TypeScript SDKs: the tests in `node/`, run by node's own runner."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from gateway import MODELS, VIRTUAL_KEY, Gateway
from python_clients import TOLD, TOOL
from test_beyond import EMBEDDED
from test_python import TEXT
from upstream.talk import BROKEN, CACHED, READ, REFUSALS, RETRY_AFTER_S, WRITTEN

HERE = Path(__file__).parent
LIMIT_S = 120


def test_node(gateway: Gateway) -> None:
    usage = {"read": READ, "cached": CACHED, "written": WRITTEN}
    told = {
        "url": gateway.url, "key": VIRTUAL_KEY, "models": MODELS, "text": TEXT, "tool": TOOL, "told": TOLD, "usage": usage,
        "embedded": EMBEDDED, "refusals": REFUSALS, "retryAfter": str(RETRY_AFTER_S), "broken": BROKEN,
    }  # fmt: skip
    run = subprocess.run(
        ["node", "--test", "--test-reporter=spec", "node/"], cwd=HERE, env={**os.environ, "HOLDLINE_TOLD": json.dumps(told)},
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    summary = [line for line in run.stdout.splitlines() if line.startswith("ℹ ")]
    print("\n".join(summary))
    # Failed tests are told in full behind the summary.
    assert run.returncode == 0, run.stdout[run.stdout.find("failing tests") :][-20_000:] + run.stderr
    assert "ℹ tests 0" not in summary, "no test was found"
