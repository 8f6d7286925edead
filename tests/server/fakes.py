"""A gateway in memory and a server around it on a real socket, for the tests of the server."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import httpx2
import msgspec

from auth.fakes import FakeTokenBytes, MemoryDocuments
from fairlead.agents.claude.dialin.routes import DialInRoutes
from fairlead.agents.claude.tui.hook_server import HookServer
from fairlead.auth.actions import CredentialActions
from fairlead.auth.credentials import Credentials
from fairlead.model import commands as cmd
from fairlead.model import events as ev
from fairlead.model import queries as q
from fairlead.model.auth import Identity
from fairlead.model.errors import NotFound, Stale
from fairlead.model.gateway import Cursor, FrameEncoder, Sink
from fairlead.model.ids import EventId, MessageId, SessionId
from fairlead.model.store import Entry, SessionPage, Summary
from fairlead.model.web.routes import ClientProtocol
from fairlead.server.app import App, AppConfig
from fairlead.server.discovery import discover
from fairlead.server.doors import OpenDoor
from fairlead.server.limits import DEFAULT_LIMITS, ServerLimits
from fairlead.server.listeners import Binding, allowed_origins, open_sockets
from fairlead.server.runner import ServerRunner
from fairlead.server.webui import WebUi
from fairlead.sessions.api.folders import (
    FolderReport,
    InspectFolder,
    ListFolder,
    ListFolders,
    ListTrusted,
    MarkFolder,
    ReadSessionChoices,
    TrustedFolder,
    TrustFolder,
    UntrustFolder,
)
from fairlead.sessions.api.transcripts import AnnounceSession, ArchiveTranscripts, ImportTranscript
from fairlead.system.clock import SystemClock
from local_http import local_client
from patience import PATIENCE

SESSION = SessionId("11111111-1111-4111-8111-111111111111")
OTHER = SessionId("22222222-2222-4222-8222-222222222222")
LOG_ID = "log-1"


def entry_of(event: ev.Event, seq: int, prev: int | None = None) -> Entry:
    return Entry(seq, seq - 1 if prev is None else prev, event.at, ev.kind_of(event), ev.encode(event))


class FakeWatch:
    def __init__(self, gateway: "FakeGateway", who: Identity, session: SessionId, position: int, verdict: str) -> None:
        self.gateway = gateway
        self.who = who
        self.session = session
        self.position = position
        self.verdict: Literal["ok", "gap"] = "ok" if verdict == "ok" else "gap"
        self.log_id = LOG_ID
        self.head = gateway.head(session)
        self.drains = 0
        self.closed = False
        self.started = False
        self.variant: FrameEncoder
        self.sink: Sink
        self.view = ""

    def start(self) -> None:
        self.started = True
        self.gateway.watches.append(self)
        self.push()

    def push(self) -> None:
        for entry in self.gateway.logs.get(self.session, []):
            if entry.seq > self.position and not self.closed:
                self.position = entry.seq
                self.sink.send(self.variant.encode(self.session, entry))

    @property
    def cursor(self) -> Cursor:
        return Cursor(self.position, self.log_id)

    def drained(self) -> None:
        self.drains += 1

    def close(self) -> None:
        self.closed = True
        if self in self.gateway.watches:
            self.gateway.watches.remove(self)


class FakeGateway:
    """Records its commands and queries. `hold` names commands and queries that wait for `release`."""

    def __init__(self) -> None:
        self.commands: list[tuple[Identity, cmd.Command]] = []
        self.queries: list[q.Query] = []
        self.signals: list[tuple[str, SessionId, str, Any]] = []
        self.logs: dict[SessionId, list[Entry]] = {SESSION: [], OTHER: []}
        self.watches: list[FakeWatch] = []
        self.answers: dict[type, Any] = {}
        self.hold: set[type] = set()
        self.release = asyncio.Event()
        self.errors: dict[type, Exception] = {}
        self.settings: dict[str, Any] = {}

    def head(self, session: SessionId) -> int:
        log = self.logs.get(session) or []
        return log[-1].seq if log else 0

    def say(self, text: str, session: SessionId = SESSION) -> Entry:
        seq = self.head(session) + 1
        event = ev.Text(id=EventId(f"e{seq}"), at=seq, message=MessageId("m"), block=0, text=text)
        entry = entry_of(event, seq)
        self.logs[session].append(entry)
        for watch in tuple(self.watches):
            watch.push()
        return entry

    async def command(self, who: Identity, command: cmd.Command) -> cmd.Reply:
        self.commands.append((who, command))
        if type(command) in self.hold:
            await self.release.wait()
        if type(command) in self.errors:
            raise self.errors[type(command)]
        session = command.session
        if session is None:
            assert isinstance(command, cmd.AnswerPermission)
            session = _pending(command.request).session
        if not isinstance(command, cmd.Create) and session not in self.logs:
            raise NotFound("session", session)
        if isinstance(command, cmd.Create):
            self.logs.setdefault(session, [])
        child = command.child if isinstance(command, cmd.Fork) else session
        message = command.message if isinstance(command, cmd.Send | cmd.Steer) else None
        return cmd.Reply(session=child, seq=self.head(session), message=message)

    async def ask(self, who: Identity, query: q.Query) -> Any:
        self.queries.append(query)
        if type(query) in self.hold:
            await self.release.wait()
        if type(query) in self.errors:
            raise self.errors[type(query)]
        if type(query) in self.answers:
            return self.answers[type(query)]
        match query:
            case q.ListSessions():
                return SessionPage(tuple(Summary(session=session) for session in self.logs))
            case q.GetSession(session=session):
                self._known(session)
                summary = Summary(session=session, title="A session", cwd="/home/somebody")
                return q.SessionView(summary=summary, log_id=LOG_ID, head=self.head(session), settings=self.settings)
            case q.ReadMessages(session=session) | q.ReadEvents(session=session):
                self._known(session)
                lines = tuple(msgspec.Raw(b'{"seq":%d,%s' % (e.seq, e.event[1:])) for e in self.logs[session])
                return q.EventPage(session=session, log_id=LOG_ID, head=self.head(session), events=lines)
            case q.ListPermissions() | q.ReadQueue():
                return ()
            case q.SearchText():
                return q.SearchResult()
            case q.ReadUsage():
                return q.UsageView()
            case q.FindPermission(request=request):
                return _pending(request)

    async def watch(
        self,
        who: Identity,
        session: SessionId,
        cursor: Cursor | None,
        variant: FrameEncoder,
        sink: Sink,
        view: str = "",
    ) -> FakeWatch:
        self._known(session)
        await asyncio.sleep(0)
        head = self.head(session)
        known = cursor is None or (cursor.log_id in ("", LOG_ID) and cursor.seq <= head)
        position = head if cursor is None else cursor.seq if known else 0
        watch = FakeWatch(self, who, session, position, "ok" if known else "gap")
        watch.variant = variant
        watch.sink = sink
        watch.view = view
        return watch

    def signal(self, who: Identity, session: SessionId, kind: str, data: Any) -> None:
        self.signals.append((who.name, session, kind, data))
        for watch in tuple(self.watches):
            if watch.session == session and watch.who.credential != who.credential:
                watch.sink.send(watch.variant.signal(session, kind, who.name, data))

    async def export(self, who: Identity, session: SessionId) -> AsyncIterator[Entry]:
        self._known(session)
        for entry in list(self.logs[session]):
            yield entry

    def _known(self, session: SessionId) -> None:
        if session not in self.logs:
            raise NotFound("session", session)


def _pending(request: str) -> q.PendingView:
    if request != "r1":
        raise NotFound("pending request", request)
    return q.PendingView(session=SESSION, seq=1, event=msgspec.Raw(b"{}"))


class FakeTrust:
    """Stands in for `TrustedFolders`."""

    def __init__(self) -> None:
        self.folders: dict[str, TrustedFolder] = {}

    def handlers(self) -> Mapping[Any, Callable[..., Any]]:
        return {
            ListTrusted: self.trusted,
            InspectFolder: self.inspect,
            TrustFolder: self.trust,
            UntrustFolder: self.untrust,
        }

    async def trusted(self, who: Identity, action: ListTrusted) -> tuple[TrustedFolder, ...]:
        return tuple(self.folders.values())

    async def inspect(self, who: Identity, action: InspectFolder) -> FolderReport:
        known = action.path in self.folders
        return FolderReport(path=action.path, digest="d1", trusted=known, environment=("ANTHROPIC_BASE_URL",))

    async def trust(self, who: Identity, action: TrustFolder) -> TrustedFolder:
        if action.digest != "d1":
            raise Stale("The folder has changed.", path=action.path)
        self.folders[action.path] = TrustedFolder(path=action.path, digest=action.digest, by=who.name)
        return self.folders[action.path]

    async def untrust(self, who: Identity, action: UntrustFolder) -> bool:
        return self.folders.pop(action.path, None) is not None


@dataclass
class Served:
    """A running server and its parts."""

    gateway: FakeGateway
    credentials: Credentials
    documents: MemoryDocuments
    app: App
    runner: ServerRunner
    port: int
    admin: str
    done: asyncio.Task[None]
    doors: DialInRoutes
    behind: list[App] = field(default_factory=list)
    """The doors that answer on the additional ports."""
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def ws(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    def client(self, token: str | None = "", **headers: str) -> httpx2.AsyncClient:
        """A client with the admin's token (""), with the given token, or without a token (None)."""
        chosen = self.admin if token == "" else token
        auth = {} if chosen is None else {"authorization": f"Bearer {chosen}"}
        return local_client(base_url=self.url, headers={**auth, **headers})

    async def token(self, *scopes: Any, name: str = "somebody") -> str:
        made = await self.credentials.create("token", name, scopes)
        self.tokens[name] = made.credential.id
        return made.secret


@contextlib.asynccontextmanager
async def serving(
    limits: ServerLimits = DEFAULT_LIMITS, binding: Binding | None = None, signals: bool = False, **parts: Any
) -> AsyncIterator[Served]:
    """Serve the native protocol and the agent routes on a free port of 127.0.0.1."""
    chosen = binding or Binding(port=0)
    clock = parts.pop("clock", SystemClock())
    documents = MemoryDocuments()
    credentials = Credentials(documents, clock, FakeTokenBytes())
    await credentials.load()
    admin = await credentials.create("token", "admin", ("admin",))
    gateway = FakeGateway()
    doors = DialInRoutes()
    hooks = HookServer(credentials.agents, "http://127.0.0.1", clock)
    shell = WebUi(Path("no such folder"))
    sockets = open_sockets(chosen)
    performers: Mapping[Any, Callable[..., Any]] = {
        **CredentialActions(credentials).handlers(),
        **FakeTrust().handlers(),
        **doors.handlers(),
        **hooks.handlers(),
        **shell.handlers(),
        ImportTranscript: nothing,
        **dict.fromkeys((ListFolders, ListFolder, MarkFolder, ReadSessionChoices), nothing),
        ArchiveTranscripts: nothing,
        AnnounceSession: nothing,
        **parts.pop("performers", {}),
    }
    behind: Sequence[OpenDoor] = parts.pop("doors", ())
    made = AppConfig(
        protocols=parts.pop("protocols", None) or discover(),
        inbound=(doors.protocol(), ClientProtocol(name="hooks", routes=hooks.routes()), shell.protocol()),
        gateway=gateway,
        handlers=performers,
        credentials=credentials,
        allowed_origins=allowed_origins(chosen, sockets),
        clock=clock,
        version="1.2.3",
        limits=limits,
        **parts,
    )
    app = App(made)
    further = [(door, door.app(made)) for door in behind]
    runner = ServerRunner(app, chosen, sockets, clock, limits, further)
    done = asyncio.create_task(runner.serve(signals=signals))
    await runner.ready()
    port = sockets[0].getsockname()[1]
    try:
        apps = [own for _, own in further]
        yield Served(gateway, credentials, documents, app, runner, port, admin.secret, done, doors, apps)
    finally:
        runner.stop()
        await done
        await credentials.close()


async def nothing(who: Identity, action: Any) -> None:
    """Perform actions whose result no test here checks."""


async def raw_request(port: int, data: bytes) -> bytes:
    """Send bytes to the port; return everything that the server sends until it closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    await writer.drain()
    try:
        return await asyncio.wait_for(reader.read(), PATIENCE)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


async def until(condition: Callable[[], bool]) -> None:
    """Wait until the condition holds, with a time limit so that a failing test ends."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.005)
