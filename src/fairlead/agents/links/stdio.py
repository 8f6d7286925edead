"""The stdio link: an agent that is our child, spoken to through its stdin and heard through its stdout."""

from collections.abc import Mapping, Sequence

from fairlead.model.agents import Exit
from fairlead.model.errors import AgentMissing, AgentNotRunning, AgentTimeout, BadRequest
from fairlead.system.clock import Clock, within
from fairlead.system.pipes import PipeClosed, Take
from fairlead.system.process import ChildProcess, StopTimeouts, spawn
from fairlead.system.sandbox import Sandbox

WRITE_SECONDS = 30.0
"""An agent that does not read its input for so long is stuck: its pipe is full and nothing of ours gets through."""


def start_child(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: str, clock: Clock, sandbox: Sandbox | None = None
) -> ChildProcess:
    """AgentMissing if there is no such program, BadRequest if there is no such folder."""
    try:
        return spawn(argv, env=env, cwd=cwd, clock=clock, sandbox=sandbox)
    except OSError as error:
        if error.filename == cwd:
            raise BadRequest(f"The working folder {cwd} cannot be used: {error.strerror}.", path=cwd) from error
        raise AgentMissing(
            f"The agent {argv[0]} cannot be started: {error.strerror}. Install it, or name it with --claude PATH.",
            path=argv[0],
        ) from error


class StdioLink:
    """Implements `Link`. Bytes to and from one child. Every call fails with AgentGone once the child reads no more."""

    def __init__(self, child: ChildProcess, clock: Clock, patience: StopTimeouts) -> None:
        self._child = child
        self._clock = clock
        self._patience = patience

    @classmethod
    def open(
        cls,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        clock: Clock,
        patience: StopTimeouts,
        sandbox: Sandbox | None = None,
    ) -> "StdioLink":
        """Start the agent. AgentMissing, BadRequest."""
        return cls(start_child(argv, env=env, cwd=cwd, clock=clock, sandbox=sandbox), clock, patience)

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def started(self) -> str:
        """The child's start mark: with the pid it names this process for good."""
        return self._child.started

    @property
    def group(self) -> int:
        return self._child.group

    @property
    def running(self) -> bool:
        return self._child.running

    async def receive(self, take: Take) -> None:
        """Hand what the agent says to `take`, each batch awaited before more is read; returns at its end."""
        await self._child.read(take)

    async def send(self, data: bytes) -> None:
        """Return when the system took the bytes. AgentGone; AgentTimeout when the agent does not read."""
        try:
            await within(self._clock, WRITE_SECONDS, self._child.write(data))
        except PipeClosed:
            raise AgentNotRunning("The agent reads no more: it has exited or is about to.") from None
        except TimeoutError:
            raise AgentTimeout("The agent does not read its input: interrupt or close the session.") from None

    async def stop(self) -> Exit:
        """The ladder, bounded; how it ended."""
        status = await self._child.end(self._patience)
        return Exit(code=status.code, signal=status.signal, stderr=self._child.stderr)
