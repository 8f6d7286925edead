"""The stdio link: an agent that runs as our child process, connected through its stdin and stdout."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence

from fairlead.model.agents import Exit
from fairlead.model.errors import AgentMissing, AgentNotRunning, AgentTimeout, BadRequest
from fairlead.system.clock import Clock, within
from fairlead.system.pipes import PipeClosed
from fairlead.system.process import ChildProcess, StopTimeouts, spawn
from fairlead.system.sandbox import Sandbox

WRITE_SECONDS = 30.0
"""An agent that does not read its input for this long is stuck: its pipe is full and no more bytes fit in."""


def start_child(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: str, clock: Clock, sandbox: Sandbox | None = None
) -> ChildProcess:
    """Spawn the agent. Raises AgentMissing if the program does not exist, BadRequest if the folder does not."""
    with explain_spawn(argv[0], cwd):
        return spawn(argv, env=env, cwd=cwd, clock=clock, sandbox=sandbox)


@contextlib.contextmanager
def explain_spawn(program: str, cwd: str) -> Iterator[None]:
    """Turn the error of a program that cannot be started into AgentMissing or BadRequest."""
    try:
        yield
    except OSError as error:
        if error.filename == cwd:
            raise BadRequest(f"The working folder {cwd} cannot be used: {error.strerror}.", path=cwd) from error
        raise AgentMissing(
            f"The agent {program} cannot be started: {error.strerror}. Install it, or name it with --claude PATH.",
            path=program,
        ) from error


class StdioLink:
    """Implements `Link` for one child process. `send` raises AgentNotRunning once the child has stopped reading."""

    output = None

    def __init__(self, child: ChildProcess, clock: Clock, patience: StopTimeouts) -> None:
        self.pid, self.group = child.pid, child.group
        self.started = child.started
        """The child's start mark: together with the pid it identifies this process uniquely."""
        self.receive = child.read
        self._child = child
        self._clock = clock
        self._patience = patience

    @property
    def running(self) -> bool:
        return self._child.running

    async def send(self, data: bytes, key: str = "") -> None:
        """Return when the operating system has accepted the bytes."""
        try:
            await within(self._clock, WRITE_SECONDS, self._child.write(data))
        except PipeClosed:
            raise AgentNotRunning("The agent does not read its input any more: it has exited or is about to.") from None
        except TimeoutError:
            raise AgentTimeout("The agent does not read its input: interrupt or close the session.") from None

    async def stop(self) -> Exit:
        """Run the stop sequence (close, terminate, kill) within its time limits and return the exit."""
        return await self._child.end(self._patience)
