"""Commands of clients to a session. Each may carry `key`: a repeat gets the stored reply."""

from typing import Any, Literal

import msgspec

from fairlead.model.content import Content
from fairlead.model.ids import MessageId, RequestId, SessionId

Link = Literal["stdio", "dial-in", "terminal"]
"""How the agent's process is connected: by pipes, by a connection that it makes to us, or on a terminal."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The settings of a session. A change takes effect before the next turn: by a control request if the agent supports
    it, else by a restart."""

    model: str = ""
    mode: str = "default"
    thinking: int | None = None
    effort: str = ""
    directories: tuple[str, ...] = ()
    append_prompt: str = ""
    partial: bool = True
    max_turns: int | None = None
    max_budget_usd: float | None = None
    mcp_servers: tuple[str, ...] = ()
    output_schema: dict[str, Any] | None = None
    link: Link = "stdio"


class CommandBase(msgspec.Struct, frozen=True, kw_only=True, tag_field="command", omit_defaults=True):
    session: SessionId | None
    key: str = ""


class SessionCommand(CommandBase, frozen=True, kw_only=True):
    session: SessionId


class WorktreeChoice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The worktree of this branch: the existing one, or a new one. A branch that does not exist begins at `base`, a
    commit or branch; empty: at what is checked out in the folder."""

    branch: str
    base: str = ""


class Create(SessionCommand, frozen=True, kw_only=True, tag="create"):
    """Open a session; `session` is the id it gets. With `worktree` it works in a worktree of the repository that `cwd`
    is in."""

    cwd: str = ""
    worktree: WorktreeChoice | None = None
    title: str = ""
    agent: str = ""
    settings: Settings = Settings()
    resume: str = ""
    node: str = ""
    """The node whose agent works on it; empty: one that has the folder. Only this one, in a gateway without others."""


class Send(SessionCommand, frozen=True, kw_only=True, tag="send"):
    """Send a prompt. It starts its own turn and is queued while the agent works; with `wait` false it is rejected
    instead (Busy)."""

    content: tuple[Content, ...]
    message: MessageId | None = None
    wait: bool = True
    reference: str = ""
    """The client's own name of this request, for its protocol: the event of the queue carries it to all clients."""


class Steer(SessionCommand, frozen=True, kw_only=True, tag="steer"):
    """Send a message into the running turn."""

    content: tuple[Content, ...]
    message: MessageId | None = None


class Interrupt(SessionCommand, frozen=True, kw_only=True, tag="interrupt"):
    """Stop the running turn. `reference` as in `Send`."""

    reference: str = ""


class AnswerPermission(CommandBase, frozen=True, kw_only=True, tag="answer"):
    """Answer a permission request, a question or a plan. The first answer wins. Without `session` the request alone
    names the session."""

    session: SessionId | None = None
    request: RequestId
    behavior: Literal["allow", "deny"]
    message: str = ""
    updated_input: dict[str, Any] | None = None
    remember: tuple[str, ...] = ()
    answers: dict[str, Any] | None = None
    interrupt: bool = False


class SetMode(SessionCommand, frozen=True, kw_only=True, tag="set_mode"):
    """Set the permission mode. `request`: the client's own id of this request, sent to all clients with the change."""

    mode: str
    request: str = ""


class SetModel(SessionCommand, frozen=True, kw_only=True, tag="set_model"):
    """Set the model; an empty one is the agent's default."""

    model: str


class SetThinking(SessionCommand, frozen=True, kw_only=True, tag="set_thinking"):
    budget: int | None


class SetRules(SessionCommand, frozen=True, kw_only=True, tag="set_rules"):
    """Replace the tool rules that clients sent before. A rule that a session may not have is left out and listed with
    the reason in `refused` of the reply's data. A file tool without a path (`Write`) applies to the session's folder:
    `narrowed` has the rule that is used instead."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class Configure(SessionCommand, frozen=True, kw_only=True, tag="configure"):
    """Change settings, including those that need a restart of the agent; it happens before the next turn."""

    settings: Settings


class Rewind(SessionCommand, frozen=True, kw_only=True, tag="rewind"):
    message: MessageId
    dry_run: bool = False


class Fork(SessionCommand, frozen=True, kw_only=True, tag="fork"):
    """Create a session `child` that continues from here, or from the end of the turn of `at` (a message id)."""

    child: SessionId
    at: MessageId | None = None
    title: str = ""


class MoveMessage(SessionCommand, frozen=True, kw_only=True, tag="move_message"):
    message: MessageId
    position: int


class CancelMessage(SessionCommand, frozen=True, kw_only=True, tag="cancel_message"):
    message: MessageId


class Rename(SessionCommand, frozen=True, kw_only=True, tag="rename"):
    title: str


class ArchiveSession(SessionCommand, frozen=True, kw_only=True, tag="archive"):
    archived: bool = True


class ShareSession(SessionCommand, frozen=True, kw_only=True, tag="share"):
    """Let another user, or everybody, see and steer the session; `remove` revokes that. For its owner or an admin."""

    user: str = ""
    everybody: bool = False
    remove: bool = False


class Close(SessionCommand, frozen=True, kw_only=True, tag="close"):
    """End the agent's process; the next message resumes the session."""


class Delete(SessionCommand, frozen=True, kw_only=True, tag="delete"):
    """Delete the session. A tombstone stays; the agent's own file stays unless `files` is set."""

    files: bool = False


class Control(SessionCommand, frozen=True, kw_only=True, tag="control"):
    """Send a request of the agent's own control protocol, for functions without a command here."""

    subtype: str
    fields: dict[str, Any] = {}


class DialIn(SessionCommand, frozen=True, kw_only=True, tag="dial_in"):
    """Invite an agent that a person starts by hand. The reply's data has url, token and command, shown once."""


class AttachShim(SessionCommand, frozen=True, kw_only=True, tag="attach_shim"):
    """Expect a shim that lends us the process of its caller: the CLI's version, its id of the conversation, and the
    process if it is on this machine. The reply's data has url and token, shown once."""

    version: str
    agent_session: str
    pid: int = 0
    started: str = ""


class StartHandover(SessionCommand, frozen=True, kw_only=True, tag="hand_over"):
    """Move the session to another link, with its history: at the end of the turn, or `now`, which interrupts it.

    While work is running the request waits and is logged as an event; with `wait` false it is rejected instead (Busy).
    """

    link: Link
    when: Literal["turn_end", "now"] = "turn_end"
    wait: bool = True


class WithdrawHandover(SessionCommand, frozen=True, kw_only=True, tag="withdraw_hand_over"):
    """Withdraw a waiting hand-over: the session keeps its link. Stale if the hand-over has begun."""


class SetVariables(SessionCommand, frozen=True, kw_only=True, tag="set_variables"):
    """Set environment variables of the running agent; the configuration lists the allowed names."""

    variables: dict[str, str]


TurnCommand = Create | Send | Steer | Interrupt | AnswerPermission
SettingsCommand = SetMode | SetModel | SetThinking | SetRules | Configure
HistoryCommand = Rewind | Fork | MoveMessage | CancelMessage
LifecycleCommand = Rename | ArchiveSession | ShareSession | Close | Delete
AgentCommand = Control | DialIn | AttachShim | SetVariables | StartHandover | WithdrawHandover
Command = TurnCommand | SettingsCommand | HistoryCommand | LifecycleCommand | AgentCommand


class Reply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The reply to a command, which is durable when the reply is sent. `repeated`: the key was used before, and nothing
    was done again."""

    session: SessionId
    seq: int = 0
    message: MessageId | None = None
    data: Any = None
    repeated: bool = False
