"""Receives a CLI's hooks over HTTP: its command hooks run `fairlead hook`, which posts here and prints our answer.
This is how an agent without a control wire (one in a terminal) requests permissions and reports its turns.

`HookServer.open` takes a handler for each event. Its endpoint has the environment (URL and token, never in argv) and
the `--settings` for the CLI. The endpoint is closed before `AgentSink.exited` is called: open hooks end, PreToolUse
with a denial.

A handler gets the hook's input (`session_id`, `transcript_path`, `cwd`, `hook_event_name`, and the event's own fields)
and returns a `control.HookAnswer`; an empty answer lets the CLI continue. It may take as long as it likes: the CLI
waits for it. It is cancelled when the hook's process is gone and has not reconnected for a while (the CLI ended it:
an interrupt), and when the endpoint is closed. A handler that fails denies a tool; for other events the answer is then
empty. The same call is handled once, however often its hook reconnects.

Where the CLI outlives the gateway, `HookEndpoint.release` leaves the open hooks unanswered: they try again until the
next gateway, which has got their token back and opens the endpoint again (`HookServer.reopen`), answers.

Measured on 2.1.37, 2.1.120 and 2.1.325: see docs/how-to/hooks.md and tests/e2e/test_real_command_hooks.py.
"""

import asyncio
import hashlib
import logging
import shlex
import sys
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final

import msgspec

from fairlead.agents.claude.stdio.tool_hooks import deny
from fairlead.agents.claude.wire.control import HookAnswer
from fairlead.agents.links import DialInTokens
from fairlead.agents.links.framing import RECORD_LIMIT
from fairlead.model.auth import Identity
from fairlead.model.errors import AgentNotRunning, BadRequest, NotFound
from fairlead.model.ids import SessionId, session_id
from fairlead.model.web.requests import Response, ServiceCall, ServiceHandlers
from fairlead.model.web.routes import Request, Route, Routes, Steps
from fairlead.system.clock import Clock, Timer

logger = logging.getLogger("fairlead.agents.claude")

PATH: Final = "/v1/hooks/{session}/{event}"
URL_VARIABLE: Final = "FAIRLEAD_HOOK_URL"
TOKEN_VARIABLE: Final = "FAIRLEAD_HOOK_TOKEN"
CERTIFICATE_VARIABLE: Final = "FAIRLEAD_HOOK_CERT"
DELIVERY: Final = "fairlead-delivery"
"""The header that identifies a reconnecting hook whose event has no tool call."""

EVENTS: Final = {
    "pre-tool-use": "PreToolUse",
    "post-tool-use": "PostToolUse",
    "user-prompt-submit": "UserPromptSubmit",
    "notification": "Notification",
    "stop": "Stop",
    "subagent-stop": "SubagentStop",
    "session-start": "SessionStart",
    "session-end": "SessionEnd",
}
"""Our name of each event, as used in the path and on the command line, and the CLI's name."""

_OF_TOOLS: Final = ("pre-tool-use", "post-tool-use")

LONGEST_SECONDS: Final = 2_147_000
"""How long the CLI waits for a hook. Measured: 2 147 483 s (24.8 days) is the maximum; with one second more, 2.1.37 and
2.1.120 do not wait at all and run the tool."""
GONE_SECONDS: Final = 3.0
"""A hook whose connection broke reconnects in a tenth of a second; after this long, the CLI has ended it."""
MOST_OPEN: Final = 1000
"""Hooks that may wait at once; the CLI runs a handful of tools at a time."""
KEPT_BYTES: Final = 1 << 20
"""Answers kept for hooks that reconnect because they did not get them: the last one, and others up to this size."""

Handler = Callable[[Mapping[str, Any]], Awaitable[HookAnswer]]


def command(event: str) -> str:
    """The shell line of a hook: this installation's own program.

    The interpreter ignores the project's folder and Python's environment variables, which a project can set. If the
    program cannot run or is killed, the tool must not run: only exit code 2 blocks it."""
    words = [sys.executable, "-P", "-E", "-m", "fairlead.cli.hook", event]
    return shlex.join(words) + (" || exit 2" if event == "pre-tool-use" else "")


class RunHook(ServiceCall[bytes], frozen=True):
    """-> the answer's bytes. Run a hook of a session's agent; there is no timeout."""

    session: SessionId
    event: str
    key: str
    given: dict[str, Any]


class HookServer:
    """Receives the hooks of all our agents. `gateway` is our own address, `http://host:port`; with `https` the hooks
    trust the file `certificate`, since no authority signs for loopback."""

    def __init__(self, tokens: DialInTokens, gateway: str, clock: Clock, certificate: str = "") -> None:
        self._tokens = tokens
        self.gateway = gateway
        self._clock = clock
        self._certificate = certificate
        self._endpoints: dict[SessionId, HookEndpoint] = {}

    def open(self, session: SessionId, handlers: Mapping[str, Handler]) -> "HookEndpoint":
        """Accept the hooks of this session's agent until the endpoint is closed. ValueError for unknown events."""
        unknown = handlers.keys() - EVENTS.keys()
        if unknown:
            raise ValueError(f"no such hooks: {sorted(unknown)}")
        url = self.gateway + PATH.removesuffix("/{event}").format(session=session)
        token = self._tokens.issue(session)
        variables = {URL_VARIABLE: url, TOKEN_VARIABLE: token, CERTIFICATE_VARIABLE: self._certificate}
        return self._add(session, handlers, variables)

    def reopen(self, session: SessionId, handlers: Mapping[str, Handler]) -> "HookEndpoint":
        """Accept the hooks of an agent of an earlier gateway, whose token is valid again."""
        return self._add(session, handlers, {})

    def reject(self, session: SessionId) -> None:
        """Accept no hooks of an agent of an earlier gateway: it is not taken over."""
        self._tokens.revoke(session)

    def _add(self, session: SessionId, handlers: Mapping[str, Handler], variables: Mapping[str, str]) -> "HookEndpoint":
        post = HookEndpoint(handlers, variables, self._clock, lambda: self._shut(session, post))
        self._endpoints[session] = post
        return post

    def _shut(self, session: SessionId, post: "HookEndpoint") -> None:
        if self._endpoints.get(session) is post:  # not if the session's next agent has its endpoint already
            del self._endpoints[session]
            self._tokens.revoke(session)

    def routes(self) -> tuple[Route, ...]:
        return tuple(ROUTES)

    def handlers(self) -> ServiceHandlers:
        return {RunHook: self._run}

    async def _run(self, who: Identity, action: RunHook) -> bytes:
        post = self._endpoints.get(action.session)
        if post is None:
            # Its token is valid: the agent is being adopted. The hook tries again after this error.
            raise AgentNotRunning("The gateway is about to take over this agent.")
        return await post.answer_hook(action.event, action.key, action.given)


ROUTES: Final = Routes()


@ROUTES.post(PATH, "agent", "claude.hook", body_limit=RECORD_LIMIT, waits=True)
def _hook(request: Request) -> Steps:
    """A hook of the session's agent; the answer may take as long as a person does."""
    event = request.params["event"]
    if event not in EVENTS:
        raise NotFound("hook", event)
    given = request.json(dict[str, Any])
    name = given.get("tool_use_id") if event in _OF_TOOLS else request.head.first(DELIVERY)
    if not isinstance(name, str) or not name:
        raise BadRequest(f"A tool's hook needs its tool_use_id; other hooks need the header {DELIVERY}.")
    # The key includes the body: a different question that reuses the name of an answered one is a new question.
    key = f"{event} {name} {hashlib.sha256(request.body).hexdigest()}"
    answer = yield RunHook(session_id(request.params["session"]), event, key, given)
    return Response(body=answer)


class _Call:
    """A hook without an answer yet, and the number of connections that wait for it."""

    def __init__(self, event: str, handle: Callable[["_Call"], Coroutine[Any, Any, None]]) -> None:
        self.event = event
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.waiting = 0
        self.work = asyncio.get_running_loop().create_task(handle(self))
        self.giving_up: Timer | None = None


class HookEndpoint:
    """Receives the hooks of one agent during its lifetime."""

    def __init__(
        self, handlers: Mapping[str, Handler], variables: Mapping[str, str], clock: Clock, shut: Callable[[], None]
    ) -> None:
        self.variables: Final = dict(variables)
        """Environment variables for the CLI."""
        self._handlers = dict(handlers)
        self._clock = clock
        self._shut = shut
        self._closed = ""
        self._released = False
        self._open: dict[str, _Call] = {}
        self._answered: OrderedDict[str, bytes] = OrderedDict()
        self._kept = 0

    def settings(self, starts: str = "", status: str = "") -> str:
        """The CLI's `--settings`: a hook for each event that has a handler. `starts` restricts the hook of
        session-start to some ways to start. `status`: what the CLI shows while the hook of a tool call runs.

        These settings override the project's. Measured on all three versions: without `disableAllHooks` and `env` here,
        a project's settings can turn our hooks off (`disableAllHooks`), or redirect them to another gateway (`env`)."""
        named = {name: self.variables[name] for name in (URL_VARIABLE, CERTIFICATE_VARIABLE)}
        hooks: dict[str, Any] = {}
        for event in (event for event in EVENTS if event in self._handlers):
            own: dict[str, Any] = {"type": "command", "command": command(event), "timeout": LONGEST_SECONDS}
            if event == "pre-tool-use" and status:
                own["statusMessage"] = status
            matcher = "*" if event in _OF_TOOLS else starts if event == "session-start" else ""
            hooks[EVENTS[event]] = [{"hooks": [own], **({"matcher": matcher} if matcher else {})}]
        return msgspec.json.encode({"disableAllHooks": False, "env": named, "hooks": hooks}).decode()

    async def answer_hook(self, event: str, key: str, given: Mapping[str, Any]) -> bytes:
        """Answer a hook. `key` is the same when the hook reconnects."""
        if key in self._answered:
            return self._answered[key]
        if self._released:
            raise AgentNotRunning("The gateway is stopping.")
        call = self._open.get(key)
        if call is None:
            if self._closed or len(self._open) >= MOST_OPEN:
                return _refusal(event, self._closed or f"More than {MOST_OPEN} hooks are open.")
            call = self._open[key] = _Call(event, lambda call: self._handle(call, key, given))
        if call.giving_up is not None:
            call.giving_up.cancel()
        call.waiting += 1
        try:
            await asyncio.wait({call.answer})
            if call.answer.cancelled():
                raise AgentNotRunning("The gateway is stopping.")
            return call.answer.result()
        finally:
            call.waiting -= 1
            if not call.waiting and not call.answer.done():
                call.giving_up = self._clock.call_later(GONE_SECONDS, call.work.cancel)

    async def close(self, reason: str) -> None:
        """Answer all open hooks, because the agent has ended or is about to. Returns when all handlers have ended."""
        self._closed = reason
        self._shut()
        calls = list(self._open.values())
        self._open.clear()
        for call in calls:
            if not call.answer.done():
                call.answer.set_result(_refusal(call.event, reason))
            if call.giving_up is not None:
                call.giving_up.cancel()
            call.work.cancel()
        if calls:
            await asyncio.wait([call.work for call in calls])

    async def release(self) -> None:
        """Leave all open hooks to the next gateway, without an answer. Returns when all handlers have ended."""
        self._released = True
        calls = list(self._open.values())
        for call in calls:
            call.answer.cancel()
            if call.giving_up is not None:
                call.giving_up.cancel()
            call.work.cancel()
        if calls:
            await asyncio.wait([call.work for call in calls])

    async def _handle(self, call: _Call, key: str, given: Mapping[str, Any]) -> None:
        answer = _refusal(call.event, "The hook's process has gone.")
        try:
            answer = await self._ask(call.event, given)
        finally:
            if call.giving_up is not None:
                call.giving_up.cancel()
            self._open.pop(key, None)
            if not call.answer.done():
                call.answer.set_result(answer)
                self._keep(key, answer)

    async def _ask(self, event: str, given: Mapping[str, Any]) -> bytes:
        handler = self._handlers.get(event)
        if handler is None:
            return _refusal(event, "This agent has no handler for the hook.")
        try:
            return msgspec.json.encode(await handler(given))
        except Exception:
            logger.exception("a hook failed", extra={"hook": event})
            return _refusal(event, "The gateway could not decide about this call.")

    def _keep(self, key: str, answer: bytes) -> None:
        self._answered[key] = answer
        self._kept += len(answer)
        while len(self._answered) > 1 and (self._kept > KEPT_BYTES or len(self._answered) > MOST_OPEN):
            self._kept -= len(self._answered.popitem(last=False)[1])


def _refusal(event: str, reason: str) -> bytes:
    """A denial for the event that can stop a tool; an empty answer for the others."""
    return msgspec.json.encode(deny(reason) if event == "pre-tool-use" else HookAnswer())
