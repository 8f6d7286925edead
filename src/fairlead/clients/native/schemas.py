"""The bodies of the REST calls, as the reference shows them. Unknown fields are rejected, not ignored."""

from typing import Annotated, Any, Literal

import msgspec

from fairlead.auth.api.credentials import DEFAULT_SCOPES, CredentialView, UserView
from fairlead.model.auth import Scope
from fairlead.model.commands import Link, Settings, WorktreeChoice
from fairlead.model.queries import AgentView, PendingView, QueuedView
from fairlead.model.store import SearchHit
from fairlead.sessions.api.folders import TrustedFolder

ContentBlock = Annotated[
    Any,
    msgspec.Meta(
        description="A block of a message. A `text` block has `text`, an `image` or `document` has its `source`.",
        extra_json_schema={
            "type": "object",
            "properties": {"type": {"enum": ["text", "image", "document"]}},
            "required": ["type"],
        },
    ),
]


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base class of request bodies."""


class CreateSession(Body, frozen=True, kw_only=True):
    """`session` is the new session's id, generated if omitted; `text` or `content` is the first message. With
    `worktree` the session works in a worktree of the repository that `cwd` is in. `node`: the gateway of a cluster on
    which its agent runs; empty: one that has the folder."""

    session: str | None = None
    cwd: str = ""
    worktree: WorktreeChoice | None = None
    title: str = ""
    agent: str = ""
    settings: Settings = Settings()
    resume: str = ""
    node: str = ""
    text: str | None = None
    content: list[ContentBlock] | None = None


class LendProcess(Body, frozen=True, kw_only=True):
    """The process that a shim lends: the version of its CLI and the CLI's id of the conversation; `pid` and `started`
    (its start time as the system reports it) if the shim is on the gateway's machine."""

    version: str
    agent_session: str
    pid: Annotated[int, msgspec.Meta(ge=0)] = 0
    started: str = ""


class PatchSession(Body, frozen=True, kw_only=True):
    title: str | None = None
    archived: bool | None = None


class PostMessage(Body, frozen=True, kw_only=True):
    """`id` is the client's own id of the message, a UUID. With `steer` the message goes into the running turn."""

    text: str | None = None
    content: list[ContentBlock] | None = None
    id: str | None = None
    steer: bool = False


class PatchSettings(Body, frozen=True, kw_only=True):
    """Omitted settings stay as they are."""

    mode: str | msgspec.UnsetType = msgspec.UNSET
    model: str | msgspec.UnsetType = msgspec.UNSET
    thinking: int | msgspec.UnsetType | None = msgspec.UNSET
    effort: str | msgspec.UnsetType = msgspec.UNSET
    directories: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    append_prompt: str | msgspec.UnsetType = msgspec.UNSET
    partial: bool | msgspec.UnsetType = msgspec.UNSET
    max_turns: int | msgspec.UnsetType | None = msgspec.UNSET
    max_budget_usd: float | msgspec.UnsetType | None = msgspec.UNSET
    mcp_servers: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    output_schema: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET
    link: Link | msgspec.UnsetType = msgspec.UNSET


class ShareBody(Body, frozen=True, kw_only=True, omit_defaults=True):
    """Share with the user `user` or with `everybody`; `remove` stops sharing."""

    user: str = ""
    everybody: bool = False
    remove: bool = False


class ForkSession(Body, frozen=True, kw_only=True):
    """Without `at` the fork continues from the end; otherwise from just after the turn of that message."""

    child: str | None = None
    at: str | None = None
    title: str = ""


class RewindSession(Body, frozen=True, kw_only=True):
    message: str
    dry_run: bool = False


class ControlAgent(Body, frozen=True, kw_only=True):
    subtype: str
    fields: dict[str, Any] = {}


class HandOverSession(Body, frozen=True, kw_only=True):
    """`now` interrupts the turn; without `wait` the request is rejected while something runs."""

    link: Link
    when: Literal["turn_end", "now"] = "turn_end"
    wait: bool = True


class SetEnvironment(Body, frozen=True, kw_only=True):
    """Only names that the setting session_env lists are allowed."""

    variables: dict[str, str]


class MoveQueued(Body, frozen=True, kw_only=True):
    position: int


class AnswerBody(Body, frozen=True, kw_only=True):
    """`remember` are rules to save; `answers` are the answers to a question."""

    behavior: Literal["allow", "deny"]
    message: str = ""
    updated_input: dict[str, Any] | None = None
    remember: tuple[str, ...] = ()
    answers: dict[str, Any] | None = None
    interrupt: bool = False


class LoginBody(Body, frozen=True, kw_only=True):
    """`name` is the device's name in lists."""

    code: str
    name: str = ""


class NewToken(Body, frozen=True, kw_only=True):
    name: str
    scopes: tuple[Scope, ...] = ("view", "chat", "approve")
    user: str = ""


class NewLoginCode(Body, frozen=True, kw_only=True):
    name: str = ""
    scopes: tuple[Scope, ...] | None = None
    user: str = ""


class NewUser(Body, frozen=True, kw_only=True):
    """With a password the user can sign in and then has these scopes."""

    name: str
    password: str = ""
    scopes: tuple[Scope, ...] = DEFAULT_SCOPES


class NewPassword(Body, frozen=True, kw_only=True):
    password: str


class NewInvitation(Body, frozen=True, kw_only=True):
    """`scopes` are the scopes of the user who accepts the invitation."""

    scopes: tuple[Scope, ...] = DEFAULT_SCOPES


class Download(Body, frozen=True, kw_only=True):
    path: str


class TrustBody(Body, frozen=True, kw_only=True):
    """`digest` is the digest of the report that was shown."""

    path: str
    digest: str


class LoginLink(msgspec.Struct, frozen=True, kw_only=True):
    """`qr` is the URL as a QR code (SVG), for a phone's camera."""

    url: str
    code: str
    expires: int
    qr: str


class Me(msgspec.Struct, frozen=True, kw_only=True):
    credential: str
    user: str
    name: str
    scopes: tuple[Scope, ...]


class Permissions(msgspec.Struct, frozen=True):
    permissions: tuple[PendingView, ...]


class Queue(msgspec.Struct, frozen=True):
    queue: tuple[QueuedView, ...]


class Hits(msgspec.Struct, frozen=True):
    """`not_searched`: the number of sessions that are not indexed yet, or not to their end. They are indexed in the
    background."""

    hits: tuple[SearchHit, ...]
    not_searched: int = 0


class AgentList(msgspec.Struct, frozen=True):
    agents: tuple[AgentView, ...]


class TokenList(msgspec.Struct, frozen=True):
    tokens: tuple[CredentialView, ...]


class Devices(msgspec.Struct, frozen=True):
    devices: tuple[CredentialView, ...]


class RemovedUser(msgspec.Struct, frozen=True):
    name: str


class UserList(msgspec.Struct, frozen=True):
    users: tuple[UserView, ...]


class TrustList(msgspec.Struct, frozen=True):
    folders: tuple[TrustedFolder, ...]


class UntrustedBody(msgspec.Struct, frozen=True):
    removed: bool
