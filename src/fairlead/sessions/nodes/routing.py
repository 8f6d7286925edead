"""The gateway of one node among several: commands and queries go to the node that has the session's files, its home.

Everything that the store answers is answered here, from its local copy: lists, history, subscriptions. A forwarded call
carries the caller's identity: the nodes of a cell trust each other (`Peers` seals what they send).
"""

import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import msgspec
from msgspec import structs

from fairlead.model import commands as cmd
from fairlead.model import queries as q
from fairlead.model.auth import Identity
from fairlead.model.errors import Fenced, NodeAway, NotFound, OutsideRoots, OwnedElsewhere, Unavailable
from fairlead.model.gateway import Cursor, FrameEncoder, Sink, SubscriptionHandle
from fairlead.model.ids import SessionId
from fairlead.model.scopes import check_scopes, require_scope
from fairlead.model.store import TRANSCRIPT, Entry
from fairlead.model.store.peers import Node, Peers
from fairlead.sessions.gateway import SessionGateway
from fairlead.sessions.nodes.takeover import Takeover
from fairlead.sessions.permissions.policy.paths import inside_any

COMMAND: Final = "session.command"
QUERY: Final = "session.query"
SIGNAL: Final = "session.signal"

_HOPS: Final = 3
"""How often a call is sent on: the home may move while it is on its way."""
_SHOWN_S: Final = 2.0
"""How long a reply waits until reads here show what the command did."""
_ONCE: Final = (
    *(cmd.Steer, cmd.Rewind, cmd.Control, cmd.DialIn, cmd.AttachShim, cmd.SetVariables, cmd.StartHandover, cmd.Fork),
    cmd.Delete,
)
"""Commands whose reply is stored after their effect, or not at all: one without an answer is not repeated."""
_AT_HOME: Final[dict[str, tuple[type[Any], Any]]] = {
    "explain": (q.ExplainPermission, q.PermissionReport),
    "delivered": (q.WaitDelivered, None),
    "turn": (q.WaitTurn, str),
    "loaded": (q.WaitLoaded, bool),
    "preview": (q.PreviewTranscript, q.TranscriptPreview),
}
"""The queries that need the session in memory or its files: their names between nodes, and the types of the answers."""
_NAMES: Final = {kind: name for name, (kind, _) in _AT_HOME.items()}

log = logging.getLogger("fairlead.nodes")


class _Command(msgspec.Struct, frozen=True):
    who: Identity
    command: cmd.Command


class _Query(msgspec.Struct, frozen=True):
    who: Identity
    session: SessionId
    name: str
    query: msgspec.Raw


class _Signal(msgspec.Struct, frozen=True):
    who: Identity
    session: SessionId
    kind: str
    data: Any


class RoutedGateway:
    """Implements `model.gateway.Gateway` around the core of this node."""

    def __init__(self, local: SessionGateway, peers: Peers, takeover: Takeover) -> None:
        self._local = local
        self._peers = peers
        self._store = local.store
        self._registry = local.registry
        self._takeover = takeover
        self._new_key = local.services.new_uuid
        self._stops: list[Callable[[], None]] = []

    def start(self) -> None:
        self._stops = [
            self._peers.serve(COMMAND, self._serve_command),
            self._peers.serve(QUERY, self._serve_query),
            self._peers.hear(SIGNAL, self._on_signal),
        ]

    def stop(self) -> None:
        for stop in self._stops:
            stop()

    # --- commands

    async def command(self, who: Identity, command: cmd.Command) -> cmd.Reply:
        check_scopes(who, command)
        self._check_lease()
        if isinstance(command, cmd.Create):
            return await self._create(who, command)
        session = await self._local.session_of(who, command)
        command = structs.replace(command, session=session)
        if not command.key and not isinstance(command, _ONCE):
            command = structs.replace(command, key=self._new_key())
        return await self._routed(who, command, session)

    async def _routed(self, who: Identity, command: cmd.Command, session: SessionId) -> cmd.Reply:
        for last in (*(False,) * (_HOPS - 1), True):
            home = await self._registry.home(session)
            try:
                if not home:
                    return await self._local.command(who, command)
                if not self._peers.lives(home) and await self._takes_over(who, command, session, home):
                    return await self._local.command(who, command)
                return await self._forward(home, who, command)
            except (OwnedElsewhere, Fenced):
                if last:
                    raise
                # It has another home by now.
                await self._store.caught_up(session)
        raise AssertionError("the loop returns or raises")

    async def _takes_over(self, who: Identity, command: cmd.Command, session: SessionId, home: str) -> bool:
        """Take the session of a node that is away over, if its folder is here too. An admin may delete any."""
        if isinstance(command, cmd.Delete) and who.may("admin"):
            await self._registry.get(session, take=True)
            return True
        if await self._takeover.take(session, home):
            return True
        raise NodeAway(home, self._since(home))

    async def _forward(self, home: str, who: Identity, command: cmd.Command) -> cmd.Reply:
        body = msgspec.json.encode(_Command(who, command))
        try:
            try:
                answer = await self._peers.ask(home, COMMAND, body)
            except Unavailable:
                if isinstance(command, _ONCE):
                    raise
                # Its key makes sure that the command takes effect once.
                answer = await self._peers.ask(home, COMMAND, body)
        except NodeAway:
            raise NodeAway(home, self._since(home)) from None
        reply = msgspec.json.decode(answer, type=cmd.Reply)
        if not isinstance(command, cmd.Delete):
            with contextlib.suppress(Unavailable, NotFound):
                # Who sends a message here and then reads here sees it.
                await self._store.caught_up(reply.session, reply.seq, _SHOWN_S)
        return reply

    async def _serve_command(self, node: str, body: bytes) -> bytes:
        asked = msgspec.json.decode(body, type=_Command)
        self._check_lease()
        if not isinstance(asked.command, cmd.Create) and asked.command.session is not None:
            await self._check_home(asked.command.session)
        return msgspec.json.encode(await self._local.command(asked.who, asked.command))

    async def _check_home(self, session: SessionId) -> None:
        home = await self._registry.home(session)
        if home:
            raise OwnedElsewhere(home)

    def _check_lease(self) -> None:
        if self._peers.suspended:
            raise Unavailable("This node has lost the store, and takes no commands until it is back.")

    def _since(self, name: str) -> int:
        return next((node.since for node in self._takeover.nodes() if node.name == name), 0)

    # --- new sessions

    async def _create(self, who: Identity, command: cmd.Create) -> cmd.Reply:
        node = await self._place(who, command)
        command = structs.replace(command, node="")
        if node == self._store.node:
            return await self._local.command(who, command)
        if not command.key:
            command = structs.replace(command, key=self._new_key())
        return await self._forward(node, who, command)

    async def _place(self, who: Identity, command: cmd.Create) -> str:
        """The node of a new session: the named one, else this one if it has the folder, else one that has."""
        if command.node:
            if all(node.name != command.node for node in self._takeover.nodes()):
                raise NotFound("node", command.node)
            return command.node
        if command.resume and (home := await self._registry.home(SessionId(command.resume))):
            return home
        if who.session or not command.cwd:
            # An agent's sessions are where it is.
            return self._store.node
        try:
            self._local.resolve_folder(command.cwd)
        except (OutsideRoots, NotFound):
            others = [node for node in self._peers.nodes() if self._serves(node, command.cwd)]
            if not others:
                raise
            return max(others, key=lambda node: (node.info.max_agents - node.info.agents, node.name)).name
        return self._store.node

    def _serves(self, node: Node, folder: str) -> bool:
        return node.alive and node.name != self._store.node and inside_any(folder, node.info.roots)

    # --- queries and watching

    async def ask(self, who: Identity, query: q.Query) -> Any:
        require_scope(who, "view")
        session = getattr(query, "session", None)
        if isinstance(query, q.ExplainPermission):
            session = (await self._local.ask(who, q.FindPermission(query.request))).session
        if session is None:
            return await self._local.ask(who, query)
        session = await self._local.ownership.require_visible(who, session)
        if type(query) not in _NAMES:
            await self._open(who, session)
            return await self._local.ask(who, query)
        for last in (*(False,) * (_HOPS - 1), True):
            home = await self._registry.home(session)
            if not home:
                return await self._local.ask(who, query)
            try:
                return await self._ask_home(home, who, session, query)
            except OwnedElsewhere:
                if last:
                    raise
                await self._store.caught_up(session)
        raise AssertionError("the loop returns or raises")

    async def _ask_home(self, home: str, who: Identity, session: SessionId, query: q.Query) -> Any:
        name = _NAMES[type(query)]
        body = msgspec.json.encode(_Query(who, session, name, msgspec.Raw(msgspec.json.encode(query))))
        wait = query.seconds if isinstance(query, q.WaitTurn) else 0.0
        try:
            while True:
                try:
                    answer = await self._peers.ask(home, QUERY, body, 20.0 + wait)
                    return msgspec.json.decode(answer, type=_AT_HOME[name][1])
                except Unavailable:
                    if not isinstance(query, q.WaitDelivered | q.WaitLoaded):
                        raise
                    # It is still waiting there.
                    self._check_lease()
        except NodeAway:
            raise NodeAway(home, self._since(home)) from None

    async def _serve_query(self, node: str, body: bytes) -> bytes:
        asked = msgspec.json.decode(body, type=_Query)
        await self._check_home(asked.session)
        query = msgspec.json.decode(asked.query, type=_AT_HOME[asked.name][0])
        return msgspec.json.encode(await self._local.ask(asked.who, query))

    async def _open(self, who: Identity, session: SessionId) -> None:
        """Let the node that has the transcript of a session make its log, which is then read here."""
        summary = await self._store.summary(session)
        if summary is not None and summary.state == TRANSCRIPT and (home := await self._registry.home(session)):
            await self._ask_home(home, who, session, q.WaitLoaded(session, wait=False))
            await self._store.caught_up(session)

    async def watch(
        self,
        who: Identity,
        session: SessionId,
        cursor: Cursor | None,
        variant: FrameEncoder,
        sink: Sink,
        view: str = "",
    ) -> SubscriptionHandle:
        require_scope(who, "view")
        session = await self._local.ownership.require_visible(who, session)
        await self._open(who, session)
        return await self._local.watch(who, session, cursor, variant, sink, view)

    def signal(self, who: Identity, session: SessionId, kind: str, data: Any) -> None:
        self._local.signal(who, session, kind, data)
        self._peers.tell(SIGNAL, msgspec.json.encode(_Signal(who, session, kind, data)))

    def _on_signal(self, node: str, body: bytes) -> None:
        heard = msgspec.json.decode(body, type=_Signal)
        if self._registry.watchers(heard.session):
            self._local.signal(heard.who, heard.session, heard.kind, heard.data)

    async def export(self, who: Identity, session: SessionId) -> AsyncIterator[Entry]:
        require_scope(who, "view")
        session = await self._local.ownership.require_visible(who, session)
        await self._open(who, session)
        async with contextlib.aclosing(self._local.export(who, session)) as entries:
            async for entry in entries:
                yield entry
