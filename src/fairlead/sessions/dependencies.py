"""Dependencies that the wiring passes to the core: store, clock, agents, policy settings, limits, callbacks."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from fairlead.model.agents import AgentKind, ProcessInfo
from fairlead.model.auth import Identity
from fairlead.model.errors import BadRequest, NotFound, OutsideRoots
from fairlead.model.events import Event
from fairlead.model.ids import SessionId
from fairlead.model.policy import Rule
from fairlead.model.store import Store
from fairlead.model.transcripts import Transcripts, TranscriptTexts
from fairlead.model.views import Projection
from fairlead.model.web.session_changes import What
from fairlead.sessions.permissions import disk
from fairlead.sessions.permissions.policy.call import Fences
from fairlead.sessions.permissions.policy.paths import inside_any
from fairlead.sessions.permissions.request_index import RequestIndex
from fairlead.sessions.process.drain import DrainSwitch
from fairlead.system.clock import Clock

CHILDREN = "children"
"""Document space of the agents' processes, so that a restarted gateway finds them again."""


async def _nothing_before_turn(session: SessionId, folder: str) -> None:
    pass


async def _no_worktrees(folder: str, branch: str, base: str) -> str:
    raise BadRequest("This gateway makes no worktrees.")


class McpServerSettings(Protocol):
    """An MCP server inside the gateway: JSON-RPC messages in, answers out (None for a notification)."""

    async def handle(self, message: Mapping[str, Any]) -> Mapping[str, Any] | None: ...


class SessionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of the design; settings can change them."""

    idle_s: float = 600.0
    max_agents: int = 8
    checkpoint_every: int = 500
    retry_s: float = 1.0
    watcher_buffer: int = 1 << 20
    loaded_sessions: int = 200
    transcript_index_bytes: int = 1 << 30


class PolicySettings(msgspec.Struct, frozen=True, kw_only=True):
    """`resolve` follows symbolic links, `entries` lists a folder; the fences keep tools off the gateway itself.
    `agent_files` are the names of the files that configure agents of any kind."""

    roots: tuple[str, ...]
    resolve: Callable[[str], str]
    agent_files: frozenset[str]
    rules: tuple[Rule, ...] = ()
    fences: Fences = Fences()
    home: str | None = None
    allow_bypass: bool = False
    entries: Callable[[str], Sequence[str]] = disk.entries

    def resolve_inside(self, path: str, folders: tuple[str, ...]) -> str:
        """Resolve a path from the wire that must lie inside these folders. Raises BadRequest, OutsideRoots."""
        if "\0" in path or not path.startswith("/"):
            raise BadRequest(f"{path[:80]!r} is not an absolute path.")
        real = self.resolve(path)
        if not inside_any(real, [self.resolve(folder) for folder in folders]):
            raise OutsideRoots(path, folders)
        return real


class CoreDependencies(msgspec.Struct, frozen=True, kw_only=True):
    store: Store
    clock: Clock
    kinds: Mapping[str, AgentKind]
    default_agent: str
    policy: PolicySettings
    new_uuid: Callable[[], str]
    trusted: Callable[[str], Awaitable[bool]]
    make_room: Callable[[str], Awaitable[None]]
    is_folder: Callable[[str], bool]
    agent_ended: Callable[[SessionId], None] = lambda session: None
    """Called when a session's agent has exited and all its output is in the log."""
    open_worktree: Callable[[str, str, str], Awaitable[str]] = _no_worktrees
    """Makes or finds the worktree of a branch, from a folder of its repository, the branch and the base."""
    before_turn: Callable[[SessionId, str], Awaitable[None]] = _nothing_before_turn
    """Awaited with a session and its folder before a queued message starts a turn. It returns within seconds."""
    turn_ended: Callable[[SessionId], None] = lambda session: None
    """Called when the end of a turn is in the log."""
    on_change: Callable[[SessionId, What], None] = lambda session, what: None
    """Called when a session's entry in lists changes."""
    committed: Callable[[SessionId, Sequence[Event]], None] = lambda session, events: None
    """Called with the events of each commit. It returns at once."""
    is_user: Callable[[str], bool] = lambda name: True
    sight_lost: Callable[[Callable[[Identity], bool]], None] = lambda lost: None
    """Called when some identities may see less than before: their sockets are closed, so that they reconnect."""
    requests: RequestIndex = msgspec.field(default_factory=RequestIndex)
    drain: DrainSwitch = msgspec.field(default_factory=DrainSwitch)
    """Read by every session before it starts a turn."""
    on_read: Callable[[SessionId, Collection[Identity], int], None] = lambda session, who, turns: None
    """Called with the identities that were shown a session, and its number of finished turns. It returns at once."""
    limits: SessionLimits = SessionLimits()
    transcripts: Transcripts | None = None
    transcript_texts: TranscriptTexts | None = None
    mcp: Mapping[str, McpServerSettings] = {}
    mcp_configs: Mapping[str, dict[str, Any]] = {}
    views: Mapping[str, Projection] = {}
    """The projections of all protocols, by name."""
    session_env: frozenset[str] = frozenset()
    """Environment variables that a client may set for a running agent."""
    agent_env: Callable[[SessionId, str], Mapping[str, str]] = lambda session, owner: {}
    """The gateway's variables for a new agent process of a session and its owner."""
    save_access: Callable[[SessionId], str] = lambda session: ""
    restore_access: Callable[[SessionId, str, str], None] = lambda session, owner, access: None
    """The digest of a session's agent token, stored with its process, and its way back after a restart."""
    owner: str = ""
    """The mark of our data folder, recorded with every child process."""

    def kind(self, name: str) -> AgentKind:
        try:
            return self.kinds[name or self.default_agent]
        except KeyError:
            raise NotFound("agent", name) from None

    async def remember_child(self, child: ProcessInfo) -> None:
        owned = msgspec.structs.replace(child, owner=self.owner, access=self.save_access(child.session))
        await self.store.here.put(CHILDREN, child.session, msgspec.to_builtins(owned))

    async def forget_child(self, session: str) -> None:
        await self.store.here.delete(CHILDREN, session)

    async def children(self) -> list[ProcessInfo]:
        """The recorded child processes of this gateway. A copied or restored data folder names children of another
        gateway, which may be running: their records are deleted here."""
        found = await self.store.here.list(CHILDREN)
        children = [msgspec.convert(value, ProcessInfo) for value in found.values()]
        for child in children:
            if child.owner != self.owner:
                await self.forget_child(child.session)
        return [child for child in children if child.owner == self.owner]
