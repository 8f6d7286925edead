"""Shared helpers for tests of agents that dial in: their process, their transcript, and a CLI started by hand."""

import asyncio
import os
import shlex
from pathlib import Path

from e2e.gateway_harness import GatewayHarness, Line
from e2e.harness import LAST_DIAL_IN, on_versions

dialing = on_versions(last=LAST_DIAL_IN)
dialing_core = on_versions(last=LAST_DIAL_IN, core=True)


def pid(harness: GatewayHarness) -> int:
    started = [line for line in (*harness.earlier, *harness.events) if line["type"] == "agent.started"]
    return int(started[-1]["pid"])


def gone(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


def written_down(home: Path, words: str) -> bool:
    """Whether the transcript contains these words; it lags behind the wire."""
    return any(words in path.read_text() for path in home.glob(".claude/projects/*/*.jsonl"))


def grows(gaps: list[float], first: float, most: float) -> None:
    """Check that each wait doubles, up to the longest; a busy machine only adds to it, and a quarter is jitter."""
    for number, gap in enumerate(gaps):
        wanted = min(first * 2**number, most)
        assert 0.7 * wanted <= gap <= 1.4 * wanted + 2, (number, gaps)


async def by_hand(harness: GatewayHarness, env: dict[str, str], give: str) -> asyncio.subprocess.Process:
    """Start the CLI as a person would.

    The token is in a variable, in a descriptor, or (both) in the variable with a wrong one in the descriptor.
    """
    info: Line = (await harness.http.post(f"/v1/sessions/{harness.session}/dial-in")).json()
    line, token = str(info["command"]), str(info["token"])
    name, descriptor = "CLAUDE_CODE_SESSION_ACCESS_TOKEN", "CLAUDE_CODE_WEBSOCKET_AUTH_FILE_DESCRIPTOR"
    assert f"{name}={token}" in line and info["url"] in line
    fds: tuple[int, ...] = ()
    if give != "variable":
        reading, writing = os.pipe()
        os.write(writing, (token if give == "descriptor" else "wrong").encode())
        os.close(writing)
        fds = (reading,)
        line = f"export {descriptor}={reading}; {line}"
        if give == "descriptor":
            line = line.replace(f"{name}={token} ", "")
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", line, env=env, stdin=quiet, stdout=quiet, stderr=quiet, pass_fds=fds
    )
    for fd in fds:
        os.close(fd)
    assert shlex.split(line)
    return process
