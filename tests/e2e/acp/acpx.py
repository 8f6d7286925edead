"""acpx, a client of ACP on the command line, with an agent of the test's choice."""

import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path

from patience import PATIENCE
from tools.acp_agents import program_path

PERMISSION_DENIED = 5
"""Its exit code of a turn in which it denied a permission."""


class Acpx:
    """`agent`: the shell command of the agent."""

    def __init__(self, agent: str, env: Mapping[str, str], cwd: Path, folder: Path) -> None:
        # acpx splits the command at spaces, so it gets a script.
        launcher = folder / "acp-agent"
        launcher.write_text(f"#!/bin/sh\n{agent}\n")
        launcher.chmod(0o755)
        self._argv = [shutil.which("node") or "node", str(program_path("acpx")), "--agent", str(launcher)]
        self._env, self._cwd = env, cwd

    async def run(self, *words: str) -> tuple[int, str]:
        """Run a command; return its exit code and its output."""
        command = await asyncio.create_subprocess_exec(
            *self._argv,
            *words,
            cwd=self._cwd,
            env=self._env,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        out, _ = await asyncio.wait_for(command.communicate(), PATIENCE)
        return command.returncode or 0, out.decode()
