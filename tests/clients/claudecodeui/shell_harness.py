"""Programs behind claudecodeui's /shell: real programs on real PTYs, with a real server."""

import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect

from auth.fakes import MemoryDocuments
from fairlead.model import commands as cmd
from fairlead.model import queries as q
from fairlead.model.auth import Identity
from fairlead.model.errors import FairleadError, NotFound, OutsideRoots
from fairlead.model.ids import SessionId
from fairlead.system.clock import Clock, SystemClock
from fairlead.system.process import StopTimeouts
from fairlead.terminals.api import Program, session_terminal
from fairlead.terminals.launcher.programs import PROVIDERS, Provider
from fairlead.terminals.launcher.service import ProgramLauncher
from fairlead.terminals.pty_session import PtySession
from fairlead.terminals.registry import TerminalRegistry
from fairlead.terminals.shells import ShellSettings, UserShells, shell_environment
from fairlead_testing.claudecodeui_shell_client import ClaudeCodeUiShellClient
from server.fakes import FakeGateway, Served, serving
from terminals.socket_client import OnSocket

SECRETS = {"FAIRLEAD_TOKEN": "fl_secret", "ANTHROPIC_API_KEY": "sk-secret", "JWT_SECRET": "secret"}


class ShellClient(ClaudeCodeUiShellClient, OnSocket):
    """The reference client on a socket."""

    def __init__(self, socket: ClientConnection) -> None:
        super().__init__()
        self.socket = socket
        self.frames: list[dict[str, Any]] = []

    async def begin(self, folder: Path | str, **more: Any) -> None:
        await self.say(**self.init(str(folder), **more))

    async def begun(self) -> None:
        await self.until(lambda: self.outputs)

    async def ended(self) -> None:
        await self.until(lambda: self.exit_codes)

    async def settled(self) -> None:
        """Wait for everything that was sent before the answer to an invalid frame."""
        before = self.text.count("Invalid websocket payload")
        await self.socket.send("settled?")
        await self.until(lambda: self.text.count("Invalid websocket payload") > before)


AGENT_SCRIPT = 'echo "agent of $1 in $(pwd)"; while read line; do echo "agent got $line"; done'


class ShellGateway(FakeGateway):
    """Hands a session over by opening its terminal, as the core does. `script` is the agent's program; `hold` works as
    in `FakeGateway`."""

    def __init__(self, terminals: TerminalRegistry, root: Path) -> None:
        super().__init__()
        self.terminals = terminals
        self.root = root
        self.script = AGENT_SCRIPT
        self.failing: dict[str, FairleadError] = {}
        """By session: the error that its handover raises after its terminal has ended."""
        self.links: dict[str, str] = {}
        self.documents = MemoryDocuments()

    async def command(self, who: Identity, command: cmd.Command) -> cmd.Reply:
        reply = await super().command(who, command)
        match command:
            case cmd.StartHandover(session=session):
                await self._hand_over(session)
            case cmd.Configure(session=session, settings=settings):
                self.links[session] = settings.link
            case cmd.Close(session=session) if (found := self.terminals.find(session_terminal(session))) is not None:
                await found.stop()
            case _:
                pass
        return reply

    async def _hand_over(self, session: SessionId) -> None:
        name = session_terminal(session)
        found = self.terminals.find(name)
        if found is None or not found.running:
            argv = ("/bin/sh", "-c", self.script, "agent", session)
            env = {"PATH": os.environ.get("PATH", os.defpath)}
            found = await self.terminals.open(name, Program(argv=argv, env=env, cwd=str(self.root)))
            self.links[session] = "terminal"
        if session in self.failing:
            await found.wait()
            self.links[session] = "stdio"
            raise self.failing[session]

    async def ask(self, who: Identity, query: q.Query) -> Any:
        answer = await super().ask(who, query)
        if isinstance(answer, q.SessionView):
            link = self.links.get(answer.summary.session, "stdio")
            return msgspec.structs.replace(answer, settings={"link": link} if link != "stdio" else {})
        return answer

    def commands_of(self, kind: type) -> list[Any]:
        return [command for _, command in self.commands if isinstance(command, kind)]


class ShellHarness:
    def __init__(
        self, served: Served, gateway: ShellGateway, terminals: TerminalRegistry, launcher: ProgramLauncher, root: Path
    ) -> None:
        self.served = served
        self.launcher = launcher
        self.gateway = gateway
        self.terminals = terminals
        self.root = root

    @contextlib.asynccontextmanager
    async def open_client(self, token: str = "", query: str = "") -> AsyncIterator[ShellClient]:
        url = f"{self.served.ws}/shell?token={token or self.served.admin}{query}"
        async with connect(url, compression=None, proxy=None, max_size=None) as socket:
            yield ShellClient(socket)

    async def token_of(self, user: str) -> str:
        await self.served.credentials.users.ensure(user)
        return (await self.served.credentials.create("token", user, ("terminal",), user)).secret

    def programs(self) -> list[PtySession]:
        """The running programs."""
        found = [self.terminals.find(name) for name in self.terminals.names()]
        return [terminal for terminal in found if terminal is not None]

    def program(self) -> PtySession:
        (found,) = self.programs()
        return found


@contextlib.asynccontextmanager
async def open_shell(
    root: Path,
    clock: Clock | None = None,
    program: str = "/bin/sh",
    most: int = 8,
    providers: Mapping[str, Provider] = PROVIDERS,
) -> AsyncIterator[ShellHarness]:
    chosen = clock or SystemClock()
    host = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(root)}
    env = shell_environment(host | SECRETS) | {"PS1": "$ "}
    settings = ShellSettings(program=program, env=env, providers=providers)
    # A shell that is interrupted by its own hang-up may need longer on a busy machine; a kill follows anyway.
    terminals = TerminalRegistry(chosen, most, StopTimeouts(close=5, terminate=1))

    def folder(path: str) -> str:
        real = Path(path or root).resolve()
        if not real.is_relative_to(root.resolve()):
            raise OutsideRoots(path, (str(root),))
        if not real.is_dir():
            raise NotFound("folder", path)
        return str(real)

    gateway = ShellGateway(terminals, root)
    shells = UserShells(terminals, chosen, settings, folder)
    launcher = ProgramLauncher(terminals, shells, gateway, gateway.documents, chosen, folder)
    async with serving(performers=launcher.handlers()) as served:
        try:
            yield ShellHarness(served, gateway, terminals, launcher, root)
        finally:
            await launcher.close()
            await shells.close()
            await terminals.close()


def folders(root: Path, *names: str) -> list[Path]:
    made = [root / name for name in names]
    for folder in made:
        folder.mkdir()
    return made
