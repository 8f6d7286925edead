"""Routes lines between the caller, the CLI and the gateway. Pure: each input returns what to send where.

The caller gets the CLI's lines as they are, and the CLI the caller's, whether a gateway is there or not. The gateway
gets a copy of what concerns the session. Between caller and CLI alone are the caller's own hooks, MCP servers and
control requests. A permission request goes to both; if a gateway is there, its word settles whose answer counts.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from fairlead.agents.claude.launch import HOOK_SECONDS, POLICY_HOOK
from fairlead.agents.claude.shim.frames import (
    AnswerAccepted,
    CallerLine,
    CliInput,
    CliLine,
    EndCli,
    FromGateway,
    FromShim,
    Stored,
    pack,
)
from fairlead.agents.claude.wire.control import HookAnswer, answer_line, cancel_line, request_line
from fairlead.cli.shim.own_ids import OwnIds
from fairlead.model.formats.bounded_tables import keep_newest
from fairlead.model.formats.frames import decode_or_none


class ToCaller(msgspec.Struct, frozen=True):
    line: bytes


class ToCli(msgspec.Struct, frozen=True):
    line: bytes


class ToGateway(msgspec.Struct, frozen=True):
    frame: FromShim


class CloseCliInput(msgspec.Struct, frozen=True):
    """The CLI gets no more input: the caller has closed its own, and the gateway owes the CLI no answer."""


class AwaitGateway(msgspec.Struct, frozen=True):
    """The caller's answer to this request waits for the gateway's word, but not for long."""

    request: str


class EndProcess(msgspec.Struct, frozen=True):
    reason: str


Effect = ToCaller | ToCli | ToGateway | CloseCliInput | AwaitGateway | EndProcess
Effects = list[Effect]


class _Message(msgspec.Struct):
    """The fields by which a line is routed."""

    type: str = ""
    request_id: str = ""
    request: dict[str, Any] = {}
    response: dict[str, Any] = {}
    uuid: str | None = None

    @property
    def subtype(self) -> str:
        return str(self.request.get("subtype", ""))

    @property
    def answers(self) -> str:
        """The request that a control_response answers."""
        return str(self.response.get("request_id", ""))


class _Card(msgspec.Struct):
    """An open permission request. `shown`: the caller has it; `answer`: the caller's answer, which waits."""

    line: bytes
    shown: bool
    answer: bytes | None = None


MOST_SETTLED: Final = 1000
_messages: Final = msgspec.json.Decoder(_Message)
_MARKS: Final = (b'"control_', b'"result"')
"""A line of the CLI without these needs no decoding: it is for everybody."""


class Router:
    """`asks`: the caller answers permission requests. `new_id` makes ids for the shim's own requests and for prompts
    without one. `approvals`: requests wait for people even if the caller cannot answer."""

    def __init__(self, *, asks: bool, approvals: bool, new_id: Callable[[], str]) -> None:
        self.attached = False
        self._asks = asks
        self._approvals = approvals
        self._new_id = new_id
        self._initialize: str | None = None
        """The id of the request that initializes the CLI; None until it is sent."""
        self._initialize_is_ours = False
        self._of_gateway: set[str] = set()
        """The gateway's requests to the CLI."""
        self._policy_hooks: set[str] = set()
        self._cards: dict[str, _Card] = {}
        self._settled: dict[str, None] = {}
        """Permission requests that need no answer any more, the newest ones."""
        self._own_ids = OwnIds()
        self._last_input = 0
        self._prompts = 0
        self._results = 0
        self._ended = False

    # --- the caller

    def from_caller(self, line: bytes) -> Effects:
        message = decode_or_none(_messages.decode, line)
        if message is None:
            return [ToCli(line)]
        match message.type:
            case "control_request":
                return self._request_of_caller(message, line)
            case "control_response" if message.answers in self._cards:
                return self._answer_of_caller(message.answers, line)
            case "control_response" if message.answers in self._settled:
                return []  # too late: the CLI has its answer
            case "user":
                self._prompts += 1
                if not message.uuid:
                    uuid = self._new_id()
                    self._own_ids.add(uuid)
                    line = _with_uuid(line, uuid)
                return [*self._initialized_first(), ToCli(line), ToGateway(CallerLine(n=0, line=pack(line)))]
            case _:
                return [ToCli(line)]

    def _request_of_caller(self, message: _Message, line: bytes) -> Effects:
        if message.subtype == "initialize":
            self._initialize, self._initialize_is_ours = message.request_id, False
            return [ToCli(_with_policy_hook(line))]
        effects = [*self._initialized_first(), ToCli(line)]
        if message.subtype == "interrupt":
            effects.append(ToGateway(CallerLine(n=0, line=pack(line))))
        return effects

    def _initialized_first(self) -> Effects:
        """A caller that does not initialize the CLI leaves it to us: the policy hook is part of that."""
        if self._initialize is not None:
            return []
        self._initialize, self._initialize_is_ours = self._new_id(), True
        return [ToCli(request_line(self._initialize, "initialize", {"hooks": {"PreToolUse": [_policy_hook()]}}))]

    def _answer_of_caller(self, request: str, line: bytes) -> Effects:
        copy = ToGateway(CallerLine(n=0, line=pack(line)))
        if not self.attached:
            self._settle(request)
            return [ToCli(line), copy]
        self._cards[request].answer = line
        return [copy, AwaitGateway(request)]

    def gateway_is_silent(self, request: str) -> Effects:
        """The gateway has not settled the caller's answer in time: it counts."""
        return self._accept(request)

    def caller_ended(self) -> Effects:
        self._ended = True
        return self._close_if_done()

    def cli_is_quiet(self) -> Effects:
        """The CLI has had its last result and does nothing: prompts that it merged have no result of their own."""
        return [CloseCliInput()] if self._ended and self._results else []

    def _close_if_done(self) -> Effects:
        unanswerable = bool(self._cards) and not self._approvals
        if self._ended and (self._results >= self._prompts or unanswerable):
            return [CloseCliInput()]
        return []

    # --- the CLI

    def from_cli(self, line: bytes) -> Effects:
        shown = self._own_ids.hide(line)
        everybody: Effects = [*([ToCaller(shown)] if shown else []), ToGateway(CliLine(n=0, line=pack(line)))]
        if not any(mark in line for mark in _MARKS):
            return everybody
        message = decode_or_none(_messages.decode, line)
        match message.type if message is not None else "":
            case "control_request":
                assert message is not None
                return self._request_of_cli(message, line)
            case "control_response":
                assert message is not None
                return self._response_of_cli(message, line)
            case "control_cancel_request":
                assert message is not None
                return self._cancelled_by_cli(message.request_id, line)
            case "result":
                self._results += 1
                return [*everybody, *self._close_if_done()]
            case _:
                return everybody

    def _request_of_cli(self, message: _Message, line: bytes) -> Effects:
        copy = ToGateway(CliLine(n=0, line=pack(line)))
        if message.subtype == "can_use_tool":
            self._cards[message.request_id] = _Card(line, shown=self._asks)
            return [*([ToCaller(line)] if self._asks else []), copy, *self._close_if_done()]
        if message.subtype == "hook_callback" and message.request.get("callback_id") == POLICY_HOOK:
            if not self.attached:
                return [ToCli(_no_opinion(message.request_id))]
            self._policy_hooks.add(message.request_id)
            return [copy]
        return [ToCaller(line)]

    def _response_of_cli(self, message: _Message, line: bytes) -> Effects:
        request = message.answers
        if request == self._initialize:
            return [] if self._initialize_is_ours else [ToCaller(line)]
        if request in self._of_gateway:
            self._of_gateway.discard(request)
            return [ToGateway(CliLine(n=0, line=pack(line)))]
        return [ToCaller(line)]

    def _cancelled_by_cli(self, request: str, line: bytes) -> Effects:
        copy = ToGateway(CliLine(n=0, line=pack(line)))
        if request in self._policy_hooks:
            self._policy_hooks.discard(request)
            return [copy]
        card = self._settle(request) if request in self._cards else None
        if card is None:
            return [ToCaller(line)]
        return [*([ToCaller(line)] if card.shown else []), copy]

    # --- the gateway

    def gateway_opened(self, *, same_link: bool) -> Effects:
        """A connection is open. On a new link the gateway has forgotten which requests are open."""
        self.attached = True
        if same_link:
            return []
        self._last_input = 0
        return [ToGateway(CliLine(n=0, line=pack(card.line))) for card in self._cards.values()]

    def gateway_lost(self) -> Effects:
        """No gateway: what waits for one goes on without it."""
        self.attached = False
        effects: Effects = [ToCli(_no_opinion(request)) for request in sorted(self._policy_hooks)]
        self._policy_hooks.clear()
        for request in [name for name, card in self._cards.items() if card.answer is not None]:
            effects += self._accept(request)
        return [*effects, *self._close_if_done()]

    def from_gateway(self, frame: FromGateway) -> Effects:
        match frame:
            case CliInput():
                if frame.n <= self._last_input:
                    return []
                self._last_input = frame.n
                return self._input(bytes(frame.line))
            case AnswerAccepted():
                return self._accept(frame.request)
            case EndCli():
                return [EndProcess(frame.reason)]
            case Stored():
                return []

    def _accept(self, request: str) -> Effects:
        card = self._cards.get(request)
        if card is None or card.answer is None:
            return []
        self._settle(request)
        return [ToCli(card.answer)]

    def _settle(self, request: str) -> _Card | None:
        keep_newest(self._settled, request, None, MOST_SETTLED)
        return self._cards.pop(request, None)

    def _input(self, line: bytes) -> Effects:
        message = decode_or_none(_messages.decode, line) or _Message()
        line += b"\n"
        match message.type:
            case "control_request" if message.subtype == "initialize":
                # The shim initializes the CLI when its caller does, and the gateway need not wait for that.
                return [ToGateway(CliLine(n=0, line=pack(answer_line(message.request_id, {}))))]
            case "control_request":
                self._of_gateway.add(message.request_id)
                return [*self._initialized_first(), ToCli(line)]
            case "control_response":
                return self._answer_of_gateway(message.answers, line)
            case "user":
                self._prompts += 1
                return [*self._initialized_first(), ToCli(line)]
            case _:
                return [ToCli(line)]

    def _answer_of_gateway(self, request: str, line: bytes) -> Effects:
        if request in self._policy_hooks:
            self._policy_hooks.discard(request)
            return [ToCli(line)]
        card = self._settle(request) if request in self._cards else None
        if card is None:
            return []
        withdrawn: Sequence[Effect] = [ToCaller(cancel_line(request))] if card.shown else []
        return [ToCli(line), *withdrawn]


def _policy_hook() -> dict[str, Any]:
    # Without `onFailure`: if neither gateway nor shim answers, the CLI's own rules decide, as without a shim.
    return {"hookCallbackIds": [POLICY_HOOK], "timeout": HOOK_SECONDS}


def _with_policy_hook(line: bytes) -> bytes:
    message = msgspec.json.decode(line)
    request = message["request"]
    hooks = request.get("hooks") or {}
    request["hooks"] = {**hooks, "PreToolUse": [_policy_hook(), *(hooks.get("PreToolUse") or [])]}
    return msgspec.json.encode(message) + b"\n"


def _with_uuid(line: bytes, uuid: str) -> bytes:
    return msgspec.json.encode({**msgspec.json.decode(line), "uuid": uuid}) + b"\n"


def _no_opinion(request: str) -> bytes:
    return answer_line(request, HookAnswer())
