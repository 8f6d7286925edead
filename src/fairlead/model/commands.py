"""Commands of clients to a session. Each may carry `key`: a repeat gets the stored reply."""

from typing import Any, Literal

import msgspec

from fairlead.model.content import Content
from fairlead.model.ids import MessageId, RequestId, SessionId

Link = Literal["stdio", "dial-in", "terminal"]
"""How the agent's process is connected: by pipes, by a connection that it makes to us, or on a terminal."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a session runs with. They take effect before a turn: by request where the agent can, else by a restart."""

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
    session: SessionId
    key: str = ""


class Create(CommandBase, frozen=True, kw_only=True, tag="create"):
    """Open a session; `session` is the id it gets."""

    cwd: str = ""
    title: str = ""
    agent: str = ""
    settings: Settings = Settings()
    resume: str = ""


class Send(CommandBase, frozen=True, kw_only=True, tag="send"):
    """A prompt: a turn of its own, queued while the agent works; with `wait` false it is refused then, Busy."""

    content: tuple[Content, ...]
    message: MessageId | None = None
    wait: bool = True


class Steer(CommandBase, frozen=True, kw_only=True, tag="steer"):
    """A word into the running turn."""

    content: tuple[Content, ...]
    message: MessageId | None = None


class Interrupt(CommandBase, frozen=True, kw_only=True, tag="interrupt"):
    pass


class AnswerPermission(CommandBase, frozen=True, kw_only=True, tag="answer"):
    """To a permission, a question or a plan. The first answer wins."""

    request: RequestId
    behavior: Literal["allow", "deny"]
    message: str = ""
    updated_input: dict[str, Any] | None = None
    remember: tuple[str, ...] = ()
    answers: dict[str, Any] | None = None
    interrupt: bool = False


class SetMode(CommandBase, frozen=True, kw_only=True, tag="set_mode"):
    """`request`: the client's own name of this request, told to everybody with the change."""

    mode: str
    request: str = ""


class SetModel(CommandBase, frozen=True, kw_only=True, tag="set_model"):
    """An empty model is the agent's default."""

    model: str


class SetThinking(CommandBase, frozen=True, kw_only=True, tag="set_thinking"):
    budget: int | None


class SetRules(CommandBase, frozen=True, kw_only=True, tag="set_rules"):
    """The rules for tools that a client keeps and brings along, in place of those that were brought before. What may
    not be a session's rule is left out: the answer's data has it in `refused`, with the reason. A tool of files
    without a path (`Write`) means the session's folder: `narrowed` has the rule that stands for it."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class Configure(CommandBase, frozen=True, kw_only=True, tag="configure"):
    """The settings that need a restart of the agent; it happens before the next turn."""

    settings: Settings


class Rewind(CommandBase, frozen=True, kw_only=True, tag="rewind"):
    message: MessageId
    dry_run: bool = False


class Fork(CommandBase, frozen=True, kw_only=True, tag="fork"):
    """A new session `child` that goes on from here, or from just after the turn of `at` (a message id)."""

    child: SessionId
    at: MessageId | None = None
    title: str = ""


class MoveMessage(CommandBase, frozen=True, kw_only=True, tag="move_message"):
    message: MessageId
    position: int


class CancelMessage(CommandBase, frozen=True, kw_only=True, tag="cancel_message"):
    message: MessageId


class Rename(CommandBase, frozen=True, kw_only=True, tag="rename"):
    title: str


class ArchiveSession(CommandBase, frozen=True, kw_only=True, tag="archive"):
    archived: bool = True


class ShareSession(CommandBase, frozen=True, kw_only=True, tag="share"):
    """Let another user, or everybody, see and steer the session; with `remove` no more. Its owner's or an admin's."""

    user: str = ""
    everybody: bool = False
    remove: bool = False


class Close(CommandBase, frozen=True, kw_only=True, tag="close"):
    """End the agent's process; the next message resumes the session."""


class Delete(CommandBase, frozen=True, kw_only=True, tag="delete"):
    """Leaves a tombstone, and the agent's own file unless `files`."""

    files: bool = False


class Control(CommandBase, frozen=True, kw_only=True, tag="control"):
    """A request of the agent's own control protocol, for what has no command of ours."""

    subtype: str
    fields: dict[str, Any] = {}


class DialIn(CommandBase, frozen=True, kw_only=True, tag="dial_in"):
    """Expect an agent that a person starts by hand. The answer's data says how: url, token and command, shown once."""


class StartHandover(CommandBase, frozen=True, kw_only=True, tag="hand_over"):
    """Go on over another link, with the history: when the turn is over, or `now`, which interrupts it.

    While something runs the wish waits and is told as an event; with `wait` false it is refused instead, Busy."""

    link: Link
    when: Literal["turn_end", "now"] = "turn_end"
    wait: bool = True


class WithdrawHandover(CommandBase, frozen=True, kw_only=True, tag="withdraw_hand_over"):
    """The session stays where it is; Stale once it is being moved."""


class SetVariables(CommandBase, frozen=True, kw_only=True, tag="set_variables"):
    """Environment variables for the running agent, of the names that the configuration allows."""

    variables: dict[str, str]


Command = (
    Create
    | Send
    | Steer
    | Interrupt
    | AnswerPermission
    | SetMode
    | SetModel
    | SetThinking
    | SetRules
    | Configure
    | Rewind
    | Fork
    | MoveMessage
    | CancelMessage
    | Rename
    | ArchiveSession
    | ShareSession
    | Close
    | Delete
    | Control
    | DialIn
    | SetVariables
    | StartHandover
    | WithdrawHandover
)


class Reply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to a command: durable when given. `repeated`: this key was seen before, nothing was done again."""

    session: SessionId
    seq: int = 0
    message: MessageId | None = None
    data: Any = None
    repeated: bool = False
