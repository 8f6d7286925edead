"""All errors that cross a package boundary, as one tree. Each has a stable code, data, and a message that says what to
do."""

from datetime import UTC, datetime
from typing import Any, ClassVar


class FairleadError(Exception):
    """The root. `code` is stable: clients and scripts may rely on it. A subclass sets it, and the HTTP status, in its
    class line; what it does not set is that of its base."""

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500

    def __init_subclass__(cls, *, code: str = "", status: int = 0) -> None:
        cls.code, cls.status = code or cls.code, status or cls.status

    def __init__(self, message: str, **data: Any) -> None:
        super().__init__(message)
        self.message = message
        self.data: dict[str, Any] = data


class RequestRejected(FairleadError, code="refused", status=400):
    """A request that cannot be done as asked (4xx)."""


class BadRequest(RequestRejected, code="bad_request"):
    """Malformed: wrong type, missing field, unknown command."""


class BadId(BadRequest, code="bad_id"):
    def __init__(self, what: str, given: str) -> None:
        super().__init__(f"{given!r} is not a {what} id: a UUID is expected.", what=what, given=given)


class BadMode(BadRequest, code="bad_mode"):
    def __init__(self, mode: str, known: tuple[str, ...], why: str = "") -> None:
        mode = mode[:40]
        default = f"There is no permission mode {mode!r}; this agent knows: {', '.join(known)}."
        super().__init__(why or default, mode=mode, known=list(known))


class TooLarge(RequestRejected, code="too_large", status=413):
    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(f"The {what} has {size} bytes; at most {limit} are taken.", what=what, size=size, limit=limit)


class NotAllowed(RequestRejected, code="not_allowed", status=403):
    """The credential lacks a scope."""


class TooDeep(NotAllowed, code="too_deep"):
    """A message of an agent would go on through too many agents."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"Messages between agents go at most {limit} sessions deep, and this session is there already: report back "
            "instead, or ask a person.",
            limit=limit,
        )


class OutsideRoots(NotAllowed, code="outside_roots"):
    def __init__(self, path: str, roots: tuple[str, ...]) -> None:
        allowed = ", ".join(roots)
        message = f"{path} is outside the allowed folders ({allowed}): start the gateway with --roots to allow it."
        super().__init__(message, path=path, roots=list(roots))


class NotTrusted(NotAllowed, code="not_trusted"):
    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is not trusted: allow it with fairlead trust {path}", path=path)


class NotFound(RequestRejected, code="not_found", status=404):
    """No such session, permission, message."""

    def __init__(self, what: str, given: str) -> None:
        super().__init__(f"There is no {what} {given[:80]}.", what=what, given=given[:80])


class Stale(RequestRejected, code="stale", status=409):
    """Too late: another client was first (already decided, already sent)."""


class Busy(RequestRejected, code="busy", status=409):
    """Not now: the session is in a state that forbids it."""


class TooMany(RequestRejected, code="too_many", status=429):
    """A rate or a count is exceeded."""


class AgentFailed(FairleadError, code="agent_failed", status=502):
    """The agent's side."""


class AgentMissing(AgentFailed, code="agent_missing", status=503):
    """No executable."""


class AgentNotRunning(AgentFailed, code="agent_gone"):
    """It exited or never started."""


class HistoryMissing(AgentNotRunning):
    """It has no conversation with the id that it was to resume."""


class AgentTimeout(AgentFailed, code="agent_timeout", status=504):
    """It did not answer a control request."""


class AgentRefused(AgentFailed, code="agent_refused"):
    """It answered a control request with an error."""


class StoreError(FairleadError, code="store", status=503):
    """The store's side."""


class Conflict(StoreError, code="conflict"):
    """The log's head is not the one the writer expected; `data["head"]` is the actual one."""

    def __init__(self, head: int) -> None:
        super().__init__(f"The head of the log is {head}.", head=head)


class Fenced(StoreError, code="fenced"):
    """Another node claimed the session with a later epoch: stop the agent, never retry."""

    def __init__(self, session: str) -> None:
        super().__init__(f"Session {session} has a newer owner.", session=session)


class OwnedElsewhere(StoreError, code="held"):
    """Another live node owns the session."""

    def __init__(self, node: str) -> None:
        super().__init__(f"Held by {node}.", node=node)


class NodeAway(StoreError, code="node_away"):
    """The node that has the session's files cannot be reached; `since` is when it was last heard, 0 if unknown."""

    def __init__(self, node: str, since: int = 0) -> None:
        super().__init__(f"The node {node} is away: its sessions go on when it is back.", node=node, since=since)


class Unavailable(StoreError, code="unavailable"):
    """Outcome unknown (full disk, lost connection): repeating the same call is safe."""


class Damaged(StoreError, code="damaged"):
    """The data cannot be used as it is (corrupt file, newer schema): the message says what to do."""


class FolderInUse(StoreError, code="folder_in_use"):
    """A second gateway was started on one data folder; the message names the first."""

    def __init__(self, folder: str, pid: int | None, since: int | None) -> None:
        who = "another gateway" if pid is None else f"the gateway with pid {pid}"
        if since is not None:
            when = datetime.fromtimestamp(since / 1000, UTC).isoformat(sep=" ", timespec="seconds")
            who += f", running since {when}"
        message = f"{folder} is in use by {who}: stop it, or start this one with another data folder (--data)."
        super().__init__(message, folder=folder, pid=pid, since=since)
