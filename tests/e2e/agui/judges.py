"""AG-UI's own client and models, as judges: pages on the real `HttpAgent`, and the models of the Python SDK.

Both run with an environment built from nothing. The client verifies every event that it receives: a breach of a rule is
in `Run.failures`.
"""

import asyncio
import contextlib
import json
import shutil
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from e2e.harness import program_folders, why_not_isolated
from fairlead.wiring import GatewayInfo
from patience import PATIENCE
from tools.agui_sdks import CLIENT, models_folder

HERE = Path(__file__).parent
Event = dict[str, Any]


def why_not_here() -> str | None:
    """Why the judges may not or cannot run here, or None."""
    if reason := why_not_isolated():
        return reason
    if not CLIENT.folder.exists() or not models_folder().exists():
        return "AG-UI's client or models are missing: `python -m tools.agui_sdks` fetches them"
    return None if shutil.which("node") else "there is no node on PATH"


class Run(msgspec.Struct):
    """What a page has after a run."""

    events: list[Event]
    failures: list[str]
    messages: list[dict[str, Any]]
    state: Any
    pending: list[dict[str, Any]]

    @property
    def kinds(self) -> list[str]:
        return [event["type"] for event in self.events]

    @property
    def end(self) -> Event:
        return self.events[-1]

    @property
    def outcome(self) -> str:
        return str(self.end["outcome"]["type"])

    def count(self, kind: str) -> int:
        return self.kinds.count(kind)

    def text(self, role: str = "assistant") -> str:
        """The last text of a role."""
        texts = [m["content"] for m in self.messages if m["role"] == role and m.get("content")]
        return str(texts[-1]) if texts else ""


class Pages:
    def __init__(self, node: asyncio.subprocess.Process) -> None:
        self._node = node
        self.events: list[Event] = []
        self.warnings: list[str] = []

    async def run(self, page: str, thread: str, text: str = "", **more: Any) -> Run:
        """Let a page run its thread, after it has added a user message."""
        assert self._node.stdin is not None and self._node.stdout is not None
        task = {"page": page, "thread": thread, "text": text, "id": str(uuid.uuid4()), **more}
        self._node.stdin.write(json.dumps(task).encode() + b"\n")
        async with asyncio.timeout(PATIENCE):
            while True:
                line = await self._node.stdout.readline()
                assert line, "the pages ended"
                answer = json.loads(line)
                if "warning" not in answer:
                    break
                self.warnings.append(answer["warning"])
        run = msgspec.convert(answer, Run)
        self.events += run.events
        return run


@contextlib.asynccontextmanager
async def open_pages(gateway: GatewayInfo, home: Path) -> AsyncIterator[Pages]:
    env = {"PATH": ":".join(program_folders()), "HOME": str(home)}
    words = (str(HERE / "pages.mjs"), str(CLIENT.folder / "node_modules"), f"{gateway.url}/v1/agui", gateway.token)
    node = await asyncio.create_subprocess_exec(
        shutil.which("node") or "node",
        *words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=env,
        cwd=home,
        limit=1 << 24,
    )
    try:
        yield Pages(node)
    finally:
        if node.returncode is None:
            node.kill()
        await node.wait()


def model_problems(events: Sequence[Event], home: Path) -> str:
    """What the models of the Python SDK reject; empty if they accept every event."""
    env = {"PYTHONPATH": str(models_folder()), "HOME": str(home), "PATH": "/usr/bin:/bin"}
    lines = "".join(json.dumps(event) + "\n" for event in events)
    argv = [sys.executable, "-S", str(HERE / "parse_models.py")]
    done = subprocess.run(argv, input=lines, env=env, capture_output=True, text=True, check=False, timeout=PATIENCE)
    return done.stdout + done.stderr
