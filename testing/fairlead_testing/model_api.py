"""A scripted Messages API: the real Claude CLI runs on it offline, and tests see what was sent to the model.

The prompt selects the model's answer (`SCRIPT:<name> [argument]`, fairlead.agents.scripts); this module only
implements HTTP. It binds to loopback and needs no key and no pytest:

    async with ScriptedModel() as model:
        ...run an agent with ANTHROPIC_BASE_URL=model.url...
        assert model.requests[-1].script == "text"

or `python -m fairlead_testing.model_api --port 8080 --log requests.jsonl`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import logging
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fairlead.agents.scripts import ApiError, Block, Call, ScriptText, ToolUse, respond
from fairlead_testing.conversations import read_conversation
from fairlead_testing.model_messages import new_id
from fairlead_testing.model_server import EventStream, LoopbackServer
from fairlead_testing.model_stream import answer, server_events

CALLS = "calls"
"""The name of the script whose tool calls a test sets (`ScriptedModel.calls`)."""
ANSWERS = "answers"
"""The name of the script whose answers a test sets (`ScriptedModel.answers`)."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request that the model's API received, with the fields that tests assert on."""

    kind: str
    """messages, title, probe, count_tokens or other."""
    method: str
    path: str
    script: str | None = None
    argument: str = ""
    step: int = 0
    attempt: int = 0
    model: str = ""
    stream: bool = False
    messages: int = 0
    system: str = ""
    thinking: dict[str, Any] | None = None
    tools: tuple[str, ...] = ()
    conversation: tuple[dict[str, Any], ...] = ()
    """All messages, as they were sent. Some versions of the CLI add notes before or after the prompt: look for the
    message that you mean, not for the last one."""

    @property
    def since_last_answer(self) -> tuple[dict[str, Any], ...]:
        """The messages after the model's last answer."""
        spoke = [place for place, message in enumerate(self.conversation) if message.get("role") == "assistant"]
        return self.conversation[spoke[-1] + 1 if spoke else 0 :]


class ScriptedModel:
    """Serves the scripted Messages API on a loopback port for as long as the context is open."""

    def __init__(self, *, port: int = 0, log: Path | None = None, delta_delay: float = 0.0) -> None:
        self.requests: list[ModelRequest] = []
        self.calls: list[ToolUse] = []
        """The calls that a prompt `SCRIPT:calls` makes the model make, one after another."""
        self.answers: list[list[Block]] = []
        """The model's answers to a prompt `SCRIPT:answers`, and then to the results of the tools that it called. An
        answer without blocks is empty; real models give such answers too."""
        self.url = ""
        self._port = port
        self._log_path = log
        self._log: TextIO | None = None
        self._delta_delay = delta_delay
        self._attempts: dict[str, int] = {}
        self._arrived = asyncio.Condition()
        self._answering = asyncio.Event()
        self._answering.set()
        self._server: LoopbackServer | None = None

    @property
    def app(self) -> Starlette:
        """The ASGI application, for callers that serve it themselves."""
        return Starlette(
            routes=[
                Route("/v1/messages", self._messages, methods=["POST"]),
                Route("/v1/messages/count_tokens", self._count_tokens, methods=["POST"]),
                Route("/{path:path}", self._other, methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]),
            ]
        )

    def of(self, script: str) -> list[ModelRequest]:
        """The requests of one script, in order of arrival."""
        return [r for r in self.requests if r.script == script]

    async def wait_for(self, wanted: Callable[[ModelRequest], bool], timeout: float = 60.0) -> ModelRequest:
        """The first request that `wanted` accepts, including past ones. Raises TimeoutError if none comes."""

        def first() -> ModelRequest | None:
            return next((r for r in self.requests if wanted(r)), None)

        async with asyncio.timeout(timeout), self._arrived:
            await self._arrived.wait_for(lambda: first() is not None)
        found = first()
        assert found is not None
        return found

    def hold(self) -> None:
        """Accept requests, but answer none until `release`."""
        self._answering.clear()

    def release(self) -> None:
        self._answering.set()

    async def __aenter__(self) -> ScriptedModel:
        self._server = LoopbackServer(self.app, self._port)
        await self._server.start()
        self.url = self._server.url
        if self._log_path is not None:
            self._log = self._log_path.open("a", encoding="utf-8", buffering=1)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        await self._server.stop()
        if self._log is not None:
            self._log.close()

    async def serve_forever(self) -> None:
        """Returns only when cancelled; for the command line."""
        async with self:
            print(f"scripted model API on {self.url}", flush=True)
            assert self._server is not None
            await asyncio.shield(self._server.served())

    async def _note(self, request: ModelRequest) -> None:
        async with self._arrived:
            self.requests.append(request)
            if self._log is not None:
                self._log.write(json.dumps(asdict(request)) + "\n")
            self._arrived.notify_all()

    async def _messages(self, request: Request) -> Response:
        try:
            body = _checked(await request.body())
        except ValueError as error:
            return _refusal(ApiError(400, "invalid_request_error", str(error)), new_id("req_"))
        call, kind = self._understand(body)
        await self._note(_describe(request, body, call, kind))
        await self._answering.wait()
        blocks = self._set_by_a_test(call) if kind == "messages" else None
        if blocks is None:
            blocks = _blocks(call, kind)
        request_id = new_id("req_")
        refused = next((b for b in blocks if isinstance(b, ApiError)), None)
        if refused is not None:
            return _refusal(refused, request_id)
        model = str(body.get("model", ""))
        if not body.get("stream"):
            return JSONResponse(answer(blocks, model), headers={"request-id": request_id})
        return EventStream(server_events(blocks, model), {"request-id": request_id}, self._delta_delay)

    def _set_by_a_test(self, call: Call) -> list[Block] | None:
        if call.name == CALLS:
            return [*self.calls[call.step : call.step + 1]] or [ScriptText("Done.")]
        if call.name == ANSWERS:
            return self.answers[call.step] if call.step < len(self.answers) else [ScriptText("Done.")]
        return None

    def _understand(self, body: dict[str, Any]) -> tuple[Call, str]:
        tools = frozenset(str(t.get("name")) for t in body.get("tools") or [])
        messages = body.get("messages") or []
        key = hashlib.sha256(json.dumps(messages).encode()).hexdigest()
        attempt = self._attempts.get(key, 0)
        self._attempts[key] = attempt + 1
        call = read_conversation(messages, tools, attempt)
        if tools:
            return call, "messages"
        if int(body.get("max_tokens") or 2) <= 1:
            return call, "probe"
        titled = "title" in _system_text(body).lower() or bool(body.get("output_config"))
        return call, "title" if titled else "messages"

    async def _count_tokens(self, request: Request) -> Response:
        try:
            body = _checked(await request.body())
        except ValueError as error:
            return _refusal(ApiError(400, "invalid_request_error", str(error)), new_id("req_"))
        await self._note(ModelRequest("count_tokens", "POST", request.url.path, model=str(body.get("model", ""))))
        return JSONResponse({"input_tokens": 1234})

    async def _other(self, request: Request) -> Response:
        await self._note(ModelRequest("other", request.method, request.url.path))
        error = {"type": "not_found_error", "message": f"no {request.url.path}"}
        return JSONResponse({"type": "error", "error": error}, status_code=404)


def _checked(data: bytes) -> dict[str, Any]:
    """The parts of a request's body that this server uses. Raises ValueError with the problem."""
    body = json.loads(data)
    messages = body.get("messages") if isinstance(body, dict) else None
    if not isinstance(messages, list) or not all(isinstance(m, dict) for m in messages):
        raise ValueError("messages: must be a list of messages")
    return dict(body)


def _describe(request: Request, body: dict[str, Any], call: Call, kind: str) -> ModelRequest:
    messages = body.get("messages") or []
    return ModelRequest(
        kind,
        request.method,
        request.url.path,
        script=call.name,
        argument=call.argument,
        step=call.step,
        attempt=call.attempt,
        model=str(body.get("model", "")),
        stream=bool(body.get("stream")),
        messages=len(messages),
        system=_system_text(body),
        thinking=body.get("thinking"),
        tools=tuple(str(t.get("name")) for t in body.get("tools") or []),
        conversation=tuple(messages),
    )


def _system_text(body: dict[str, Any]) -> str:
    system = body.get("system") or ""
    if isinstance(system, str):
        return system
    return "\n".join(str(block.get("text", "")) for block in system)


def _blocks(call: Call, kind: str) -> list[Block]:
    if kind == "title":
        return [ScriptText(json.dumps({"title": "A scripted session", "isNewTopic": True}))]
    if kind == "probe":
        return [ScriptText("ok")]
    return respond(call)


def _refusal(error: ApiError, request_id: str) -> Response:
    detail = {"type": error.type, "message": error.message}
    body = {"type": "error", "error": detail, "request_id": request_id}
    return JSONResponse(body, status_code=error.status, headers={"request-id": request_id})


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fairlead_testing.model_api", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="loopback port; 0 takes a free one")
    parser.add_argument("--log", type=Path, help="append every request as a JSON line to this file")
    parser.add_argument("--delta-delay", type=float, default=0.0, help="seconds between two deltas")
    options = parser.parse_args(argv)
    # uvicorn logs a cut stream as an error, but here it is intended.
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
    model = ScriptedModel(port=options.port, log=options.log, delta_delay=options.delta_delay)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(model.serve_forever())
    return 0


if __name__ == "__main__":
    sys.exit(main())
