"""Finds the installed CLI by path, asks it for its version once per file, and derives its abilities from the version.

The help text is not used: it does not list the dial-in flag.
"""

import os
import shutil
from collections.abc import Mapping, Sequence

from fairlead.agents.claude.versions import Abilities, Version, dotted, parse_version
from fairlead.model.errors import AgentMissing
from fairlead.system.clock import Clock, ends_within
from fairlead.system.process import StopTimeouts, spawn
from fairlead.system.sandbox import Sandbox

VERSION_SECONDS = 30.0
"""A JavaScript CLI takes two seconds to print its version on an idle machine."""

OLDEST: Version = (2, 1, 37)
"""The oldest version on which all scenarios pass (docs/reference/compatibility.md). Older versions are rejected: 2.1.0
sends its own warm-up as prompts, and exits on messages that it does not know."""

_HURRY = StopTimeouts(close=0.0, terminate=2.0, kill=2.0)
_LONGEST = 4096

DIAL_IN_REFUSED = "no: this version refuses local hosts"


def ways(version: Version) -> dict[str, str]:
    """The links over which this version can be driven, each with yes or the reason why not."""
    return {"stdio": "yes", "dial-in": "yes" if Abilities(version).dial_in else DIAL_IN_REFUSED, "terminal": "yes"}


def find_executable(configured: str, path: str) -> str:
    """The file to run: the configured one, else `claude` in PATH. Raises AgentMissing."""
    found = shutil.which(configured or "claude", path=path)
    if found is None:
        where = f"at {configured}" if configured else "in PATH"
        raise AgentMissing(
            f"Claude Code was not found {where}. Install it (npm install -g @anthropic-ai/claude-code), name it with "
            "--claude PATH, or try --agent demo.",
            path=configured,
        )
    return os.path.abspath(found)


class VersionProbe:
    """Asks a command for its version, and remembers the answer as long as the file stays the same."""

    def __init__(self, clock: Clock, sandbox: Sandbox | None = None) -> None:
        self._clock = clock
        self._sandbox = sandbox
        self._known: dict[tuple[tuple[str, ...], int, int], Version] = {}

    async def ask(self, command: Sequence[str], env: Mapping[str, str]) -> Version:
        """Return the command's version. Raises AgentMissing, with the program's output, if it does not print a version
        that we can drive."""
        try:
            file = os.stat(command[0])
            key = (tuple(command), file.st_mtime_ns, file.st_size)
            if key not in self._known:
                self._known[key] = await self._ask(command, env)
        except OSError as error:
            raise AgentMissing(f"{command[0]} cannot be started: {error.strerror}.", path=command[0]) from error
        return self._known[key]

    async def _ask(self, command: Sequence[str], env: Mapping[str, str]) -> Version:
        output = bytearray()

        async def take(data: bytes) -> None:
            output.extend(data[: _LONGEST - len(output)])

        child = spawn([*command, "--version"], env=env, cwd="/", clock=self._clock, sandbox=self._sandbox)
        try:
            if not await ends_within(self._clock, VERSION_SECONDS, child.read(take)):
                late = f"{command[0]} --version did not answer within {VERSION_SECONDS:.0f} s."
                raise AgentMissing(late, path=command[0])
        finally:
            await child.end(_HURRY)
        words = output.decode("utf-8", "replace").strip()
        version = parse_version(words)
        if version is None:
            shown = words or child.stderr.strip()[-500:] or "nothing"
            raise AgentMissing(f"{command[0]} --version did not print a version but: {shown[:500]}", path=command[0])
        if version < OLDEST:
            raise AgentMissing(
                f"Claude Code {dotted(version)} is older than the oldest version that Fairlead supports "
                f"({dotted(OLDEST)}). Update it: {command[0]} update, or npm install -g @anthropic-ai/claude-code.",
                path=command[0],
                version=words,
            )
        return version
