"""Sessions of nodes that are away: what may be taken over, and the agents of a node that has lost its own lease.

Only a session whose folder, and whose agent's home, lie in folders that both nodes declare as shared is taken over:
everywhere else the agent's files are not here. Nothing is written for other sessions of a node that is away.
"""

import logging
import signal
from collections.abc import Callable
from typing import Final, Literal

import msgspec

from fairlead.model import commands as cmd
from fairlead.model.auth import Identity
from fairlead.model.content import TextBlock
from fairlead.model.errors import FairleadError, OwnedElsewhere
from fairlead.model.ids import SessionId
from fairlead.model.store import Node, Peers, Summary
from fairlead.sessions.permissions.policy.paths import inside_any
from fairlead.sessions.registry import Registry
from fairlead.sessions.session import Session
from fairlead.system.tasks import TaskSet

OnTakeover = Literal["wait", "continue"]
AWAY: Final = "its node went away"
CONTINUE: Final = "The machine that ran you went away: go on where you were."
PAUSE_S: Final = 2.0
"""Survivors wait a random part of this, so that one of them is first."""
KILL_AFTER_S: Final = 5.0
"""From the loss of the lease to the end of the agents in shared folders. Another node starts others 10 s after the
loss at the earliest."""
_GATEWAY: Final = Identity("", "", "gateway", frozenset({"chat"}))

logger = logging.getLogger("fairlead.nodes")


class SharedFolders(msgspec.Struct, frozen=True):
    """Folders that have the same path and content on every node that names them, and the home of this node's
    agents."""

    folders: tuple[str, ...] = ()
    home: str = ""

    def has(self, folder: str) -> bool:
        return inside_any(folder, self.folders)

    def reaches(self, folder: str, other: Node) -> bool:
        """Whether this node has everything of a session that the other node has: its folder, and what the agent itself
        stores."""
        both = tuple(name for name in self.folders if name in other.info.shared)
        same_home = bool(self.home) and self.home == other.info.home
        return same_home and inside_any(folder, both) and inside_any(self.home, both)


class Takeover:
    """`random` returns a number from 0 to 1."""

    def __init__(
        self,
        registry: Registry,
        peers: Peers,
        shared: SharedFolders,
        *,
        then: OnTakeover = "wait",
        random: Callable[[], float],
    ) -> None:
        self._registry = registry
        self._peers = peers
        self._shared = shared
        self._then = then
        self._random = random
        self._away: set[str] = set()
        self._known: dict[str, Node] = {}
        self._suspended = False
        self._stopped: set[Session] = set()
        """Sessions whose agents do not run while the lease is lost."""
        self._tasks = TaskSet()
        self._stop: Callable[[], None] = lambda: None

    def start(self) -> None:
        self._stop = self._peers.on_change(self._on_change)
        self._on_change()

    async def stop(self) -> None:
        self._stop()
        await self._tasks.close()

    def nodes(self) -> tuple[Node, ...]:
        """All nodes by name; one that has stopped is remembered as it was."""
        self.remember()
        return tuple(node for _, node in sorted(self._known.items()))

    def remember(self) -> None:
        """Note what the nodes say of themselves. A node that stops takes that with it."""
        now = {node.name: node for node in self._peers.nodes()}
        for name, node in self._known.items():
            if name not in now:
                since = node.since if not node.alive else self._registry.services.clock.now_ms()
                now[name] = msgspec.structs.replace(node, alive=False, since=since)
        self._known = now

    def _on_change(self) -> None:
        if self._peers.suspended != self._suspended:
            self._suspended = self._peers.suspended
            if self._suspended:
                self._tasks.spawn(self._suspend())
            else:
                self._resume()
        away = {node.name for node in self.nodes() if not self._peers.lives(node.name)}
        for node in away - self._away:
            self._tasks.spawn(self._survey(node))
        self._away = away

    # --- sessions of others

    async def take(self, session: SessionId, home: str) -> bool:
        """Take a session over, if that is possible. OwnedElsewhere if another node was first."""
        summary = await self._registry.services.store.summary(session)
        if summary is None or not self._may_take(summary, home):
            return False
        loaded = await self._registry.get(session, take=True)
        logger.warning("session taken over", extra={"session": session, "node": home})
        working = loaded.core.interpreter.turn is not None or bool(loaded.core.state.pending)
        await loaded.supervisor.close_lost(AWAY, AWAY)
        if working and self._then == "continue":
            await loaded.command(_GATEWAY, cmd.Send(session=session, content=(TextBlock(CONTINUE),)))
        loaded.supervisor.schedule_next()
        return True

    def _may_take(self, summary: Summary, home: str) -> bool:
        node = next((node for node in self.nodes() if node.name == home), None)
        return node is not None and not self._peers.lives(home) and self._shared.reaches(summary.cwd, node)

    async def _survey(self, node: str) -> None:
        """Take over the sessions of a node that is away and that were at work. The others wait for a message."""
        store, clock = self._registry.services.store, self._registry.services.clock
        for session in await store.owned_by(node):
            summary = await store.summary(session)
            if summary is None or summary.state not in ("working", "waiting") or not self._may_take(summary, node):
                continue
            await clock.sleep(PAUSE_S * self._random())
            try:
                await self.take(session, node)
            except OwnedElsewhere:
                continue
            except FairleadError as error:
                extra = {"session": session, "node": node, "error": error.message}
                logger.warning("session cannot be taken over", extra=extra)

    # --- the own lease

    async def _suspend(self) -> None:
        """Stop the agents in shared folders while another node may own their sessions; kill them before it starts its
        own. Agents in folders of this node alone go on: nobody else can be there."""
        affected = [session for session in self._registry.all_loaded() if self._shared.has(session.core.state.cwd)]
        self._stopped = {session for session in affected if session.supervisor.agent is not None}
        for session in self._stopped:
            self._signal(session, signal.SIGSTOP)
        logger.warning("the lease is lost", extra={"agents": len(self._stopped)})
        await self._registry.services.clock.sleep(KILL_AFTER_S)
        if self._suspended:
            killed, self._stopped = self._stopped, set()
            for session in killed:
                await self._registry.abandon(session)

    def _resume(self) -> None:
        for session in self._stopped:
            self._signal(session, signal.SIGCONT)
        self._stopped = set()

    @staticmethod
    def _signal(session: Session, number: signal.Signals) -> None:
        if session.supervisor.connection is not None:
            session.supervisor.connection.signal(number)
