"""Events of the conversation: turns, messages, tools, subagents, and requests to a person."""

from typing import Any, Literal

import msgspec

from fairlead.model.content import Content
from fairlead.model.events.base import DeltaEvent, EventBase, SubagentEvent
from fairlead.model.ids import CallId, MessageId, RequestId


class ModelUsage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens and cost of one model in one turn."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost_usd: float = 0.0
    window: int = 0
    """The model's context window in tokens, if the agent reported it."""


TurnStatus = Literal["completed", "failed", "cancelled"]


class TurnStarted(EventBase, frozen=True, kw_only=True, tag="turn.started"):
    """`trigger`: a prompt, or the agent itself (background work that reports back)."""

    trigger: Literal["prompt", "agent"] = "prompt"


class TurnEnded(EventBase, frozen=True, kw_only=True, tag="turn.ended"):
    """`closed` names the calls that were still open and end with the turn; `model_turns` is the agent's count of the
    model's answers."""

    status: TurnStatus
    reason: str = ""
    text: str = ""
    cost_usd: float = 0.0
    duration_ms: int = 0
    api_ms: int = 0
    model_turns: int = 0
    usage: dict[str, ModelUsage] = {}
    errors: tuple[str, ...] = ()
    closed: tuple[CallId, ...] = ()
    output: Any = None


class UserMessage(EventBase, frozen=True, kw_only=True, tag="user.message"):
    """A message that was sent to the agent. `via` steer: it went into a running turn. `synthetic`: the agent made it
    itself. `record` is the agent's id of it, if the agent chose one (a prompt that was typed into its terminal)."""

    message: MessageId
    content: tuple[Content, ...]
    by: str = ""
    via: Literal["prompt", "steer", "agent"] = "prompt"
    synthetic: bool = False
    record: str = ""


class TextDelta(DeltaEvent, frozen=True, kw_only=True, tag="text.delta"):
    """`offset` is the number of characters of this block before this piece."""

    text: str


class ThinkingDelta(DeltaEvent, frozen=True, kw_only=True, tag="thinking.delta"):
    text: str = ""
    signature: str = ""


class InputDelta(DeltaEvent, frozen=True, kw_only=True, tag="input.delta"):
    """A piece of a tool call's input while the model writes it: JSON text, cut anywhere."""

    call: CallId
    name: str
    json: str


class TokenCount(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens of one model answer, as far as the agent knew when it reported it. The turn's end has the sum."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    tier: str = ""


Mark = tuple[int, int]
"""`(seq, offset)`: up to that delta, `offset` characters of the block were sent."""


class Text(EventBase, frozen=True, kw_only=True, tag="text"):
    """A complete block of the answer. With marks it was streamed before; its deltas are gone from the log.

    `tokens` are on the last block of a record, whether text, thinking or a call."""

    message: MessageId
    block: int
    text: str
    model: str = ""
    marks: tuple[Mark, ...] = ()
    error: str = ""
    tokens: TokenCount | None = None


class Thinking(EventBase, frozen=True, kw_only=True, tag="thinking"):
    message: MessageId
    block: int
    text: str
    signature: str = ""
    model: str = ""
    marks: tuple[Mark, ...] = ()
    tokens: TokenCount | None = None


class ToolCalled(EventBase, frozen=True, kw_only=True, tag="tool.called"):
    call: CallId
    name: str
    input: dict[str, Any]
    message: MessageId
    block: int = 0
    model: str = ""
    marks: tuple[Mark, ...] = ()
    tokens: TokenCount | None = None


class ToolProgress(EventBase, frozen=True, kw_only=True, tag="tool.progress"):
    call: CallId
    name: str = ""
    elapsed_s: float = 0.0
    note: str = ""


class ToolEnded(EventBase, frozen=True, kw_only=True, tag="tool.ended"):
    """`content` is the result for the model, `data` the agent's own structured result: both complete. `background`: the
    subagent that the call started continues; without it, `subagent.ended` follows the end of such a call. A call that
    the model began to write and never made (it has only `input.delta` events) also ends with this event, as
    interrupted."""

    call: CallId
    name: str = ""
    content: Any = None
    data: Any = None
    is_error: bool = False
    status: Literal["done", "failed", "interrupted"] = "done"
    background: bool = False


class SubagentStarted(SubagentEvent, frozen=True, kw_only=True, tag="subagent.started"):
    """`child` is the new subagent; `subagent` is the one that started it, if any."""

    title: str = ""
    kind: str = ""
    prompt: str = ""
    background: bool = False


class SubagentEnded(SubagentEvent, frozen=True, kw_only=True, tag="subagent.ended"):
    status: Literal["completed", "failed", "stopped"] = "completed"
    summary: str = ""


class SubagentResolved(SubagentEvent, frozen=True, kw_only=True, tag="subagent.resolved"):
    """These messages and calls, sent earlier as unresolved in the main thread, belong to `child`: its call arrived."""

    messages: tuple[MessageId, ...] = ()
    calls: tuple[CallId, ...] = ()


class PermissionRequested(EventBase, frozen=True, kw_only=True, tag="permission.asked"):
    """`suggestions` are rules that an "always allow" would remember, in Fairlead's notation. `certain` is false if the
    agent does not say exactly what it will do: then rules may deny it, and only a person allows it."""

    request: RequestId
    call: CallId
    tool: str
    input: dict[str, Any]
    title: str = ""
    reason: str = ""
    blocked_path: str = ""
    suggestions: tuple[str, ...] = ()
    certain: bool = True
    data: dict[str, Any] = {}


class QuestionAsked(EventBase, frozen=True, kw_only=True, tag="question.asked"):
    """The agent asks the person something: answered like a permission, with `answers`. `tool`: the agent's name of the
    tool with which it asks; logs of older versions have none."""

    tool: str = "Question"
    request: RequestId
    call: CallId
    questions: tuple[dict[str, Any], ...]
    input: dict[str, Any] = {}


class PlanProposed(EventBase, frozen=True, kw_only=True, tag="plan.proposed"):
    """The agent shows a plan: approval lets it start. `tool` as in a question."""

    tool: str = "Plan"
    request: RequestId
    call: CallId
    plan: str
    input: dict[str, Any] = {}


Decider = Literal["person", "rule", "mode", "fence", "default"]


class PermissionResolved(EventBase, frozen=True, kw_only=True, tag="permission.resolved"):
    """A request was decided; this happens once. `by` is the person, `how` the kind of decision, `rule` the rule.
    `asked`: clients had been asked."""

    request: RequestId
    call: CallId
    tool: str
    behavior: Literal["allow", "deny"]
    how: Decider
    by: str = ""
    rule: str = ""
    message: str = ""
    input: dict[str, Any] = {}
    updated_input: dict[str, Any] | None = None
    remembered: tuple[str, ...] = ()
    interrupt: bool = False
    asked: bool = True


class PermissionCancelled(EventBase, frozen=True, kw_only=True, tag="permission.cancelled"):
    request: RequestId
    reason: str
