"""All errors that cross a package boundary, as one tree. Each has a stable code, data, and a message that says what to
do.

FairleadError
  RequestRejected         a request that cannot be done as asked (4xx)
    BadRequest            malformed: wrong type, missing field, unknown command
      BadId
      BadMode
    TooLarge
    NotAllowed            the credential lacks a scope
      OutsideRoots
      UntrustedFolder
    NotFound              no such session, permission, message
    Stale                 too late: another client was first (already decided, already sent)
    Busy                  not now: the session is in a state that forbids it
    TooMany               a rate or a count is exceeded
  AgentFailed             the agent's side
    AgentMissing          no executable
    AgentNotRunning       it exited or never started
    AgentTimeout          it did not answer a control request
    AgentRefused          it answered a control request with an error
  StoreError              the store's side
    Conflict, Fenced, OwnedElsewhere, Unavailable, Damaged, FolderInUse
"""

from datetime import UTC, datetime
from typing import Any, ClassVar


class FairleadError(Exception):
    """The root. `code` is stable: clients and scripts may rely on it."""

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500

    def __init__(self, message: str, **data: Any) -> None:
        super().__init__(message)
        self.message = message
        self.data: dict[str, Any] = data


class RequestRejected(FairleadError):
    code = "refused"
    status = 400


class BadRequest(RequestRejected):
    code = "bad_request"


class BadId(BadRequest):
    code = "bad_id"

    def __init__(self, what: str, given: str) -> None:
        super().__init__(f"{given!r} is not a {what} id: a UUID is expected.", what=what, given=given)


class BadMode(BadRequest):
    code = "bad_mode"

    def __init__(self, mode: str, known: tuple[str, ...], why: str = "") -> None:
        super().__init__(
            why or f"There is no permission mode {mode[:40]!r}; this agent knows: {', '.join(known)}.",
            mode=mode[:40],
            known=list(known),
        )


class TooLarge(RequestRejected):
    code = "too_large"
    status = 413

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(f"The {what} has {size} bytes; at most {limit} are taken.", what=what, size=size, limit=limit)


class NotAllowed(RequestRejected):
    code = "not_allowed"
    status = 403


class OutsideRoots(NotAllowed):
    code = "outside_roots"

    def __init__(self, path: str, roots: tuple[str, ...]) -> None:
        super().__init__(
            f"{path} is outside the allowed folders ({', '.join(roots)}): start the gateway with --roots to allow it.",
            path=path,
            roots=list(roots),
        )


class UntrustedFolder(NotAllowed):
    code = "untrusted"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} is not trusted yet: look at its settings and trust it with: fairlead trust {path}",
            path=path,
        )


class NotFound(RequestRejected):
    code = "not_found"
    status = 404

    def __init__(self, what: str, given: str) -> None:
        super().__init__(f"There is no {what} {given[:80]}.", what=what, given=given[:80])


class Stale(RequestRejected):
    code = "stale"
    status = 409


class Busy(RequestRejected):
    code = "busy"
    status = 409


class TooMany(RequestRejected):
    code = "too_many"
    status = 429


class AgentFailed(FairleadError):
    code = "agent_failed"
    status = 502


class AgentMissing(AgentFailed):
    code = "agent_missing"
    status = 503


class AgentNotRunning(AgentFailed):
    code = "agent_gone"


class AgentTimeout(AgentFailed):
    code = "agent_timeout"
    status = 504


class AgentRefused(AgentFailed):
    code = "agent_refused"


class StoreError(FairleadError):
    code = "store"
    status = 503


class Conflict(StoreError):
    """The log's head is not the one the writer expected; `head` is the actual one."""

    code = "conflict"

    def __init__(self, head: int) -> None:
        super().__init__(f"The head of the log is {head}.", head=head)
        self.head = head


class Fenced(StoreError):
    """Another node claimed the session with a later epoch: stop the agent, never retry."""

    code = "fenced"

    def __init__(self, session: str) -> None:
        super().__init__(f"Session {session} has a newer owner.", session=session)


class OwnedElsewhere(StoreError):
    """Another live node owns the session."""

    code = "held"

    def __init__(self, node: str) -> None:
        super().__init__(f"Held by {node}.", node=node)
        self.node = node


class Unavailable(StoreError):
    """Outcome unknown (full disk, lost connection): repeating the same call is safe."""

    code = "unavailable"


class Damaged(StoreError):
    """The data cannot be used as it is (corrupt file, newer schema): the message says what to do."""

    code = "damaged"


class FolderInUse(StoreError):
    """A second gateway was started on one data folder; the message names the first."""

    code = "folder_in_use"

    def __init__(self, folder: str, pid: int | None, since: int | None) -> None:
        who = "another gateway" if pid is None else f"the gateway with pid {pid}"
        if since is not None:
            when = datetime.fromtimestamp(since / 1000, UTC).isoformat(sep=" ", timespec="seconds")
            who += f", running since {when}"
        super().__init__(
            f"{folder} is in use by {who}: stop it, or start this one with another data folder (--data).",
            folder=folder,
            pid=pid,
            since=since,
        )
