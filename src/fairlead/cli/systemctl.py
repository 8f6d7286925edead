"""Calls of `systemctl --user`."""

import shutil
import subprocess
from collections.abc import Mapping

import msgspec

from fairlead.client.errors import CommandFailed

INSTEAD = (
    "let what starts programs here run `fairlead serve` (in a container, as its command), and `fairlead keeper run` as "
    "a service of its own, so that agents outlive a restart of the gateway."
)


class UnitState(msgspec.Struct, frozen=True, kw_only=True):
    """What systemd says about a unit. `installed`: it has read its file. `pid` is 0 if it does not run."""

    unit: str
    installed: bool
    active: str
    enabled: bool
    pid: int


class Systemctl:
    """The user's systemd. Raises CommandFailed if it cannot be reached."""

    def __init__(self) -> None:
        program = shutil.which("systemctl")
        if program is None:
            raise CommandFailed(f"There is no systemd on this machine: {INSTEAD}")
        self._program = program
        answer = self._run("show", "--property=Version")
        if answer.returncode:
            raise CommandFailed(f"No systemd answers for this user ({_reason(answer)}): {INSTEAD}")

    def call(self, *words: str) -> str:
        """Return the output. Raises CommandFailed."""
        answer = self._run(*words)
        if answer.returncode:
            raise CommandFailed(f"systemctl --user {' '.join(words)} failed: {_reason(answer)}")
        return answer.stdout

    def state(self, unit: str) -> UnitState:
        lines = self.call("show", unit, "--property=LoadState,ActiveState,SubState,UnitFileState,MainPID").splitlines()
        found: Mapping[str, str] = dict(line.split("=", 1) for line in lines if "=" in line)
        return UnitState(
            unit=unit,
            installed=found.get("LoadState") == "loaded",
            active=f"{found.get('ActiveState', 'unknown')} ({found.get('SubState', 'unknown')})",
            enabled=found.get("UnitFileState") == "enabled",
            pid=int(found.get("MainPID") or 0),
        )

    def _run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        command = [self._program, "--user", "--no-pager", *words]
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def _reason(answer: "subprocess.CompletedProcess[str]") -> str:
    lines = answer.stderr.strip().splitlines()
    return lines[-1].rstrip(".") if lines else f"exit code {answer.returncode}"
