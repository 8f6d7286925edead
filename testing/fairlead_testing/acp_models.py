"""A scripted model for ACP agents: Gemini CLI, opencode and Codex run on it offline, and tests see what was sent to it.

The prompt selects the answer (`SCRIPT:<name> [argument]`, acp_scripts); acp_dialects has the APIs; this module only
implements HTTP. It binds to loopback and needs no key and no pytest:

    async with AcpModel() as model:
        ...run an agent whose API is model.url...
        assert model.requests[-1].script == "text"
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fairlead.agents.scripts import ApiError, ScriptText
from fairlead_testing.acp_dialects import Asked, Chat, Dialect, Gemini, Responses
from fairlead_testing.acp_scripts import AcpBlock, agent_of, read_prompt, respond
from fairlead_testing.model_server import EventStream, LoopbackServer

_STRUCTURED = {"reasoning": "scripted", "next_speaker": "user"}
"""An answer for requests that want JSON: an agent asks so what to do next."""


@dataclass(frozen=True, slots=True)
class AcpModelRequest:
    """One request that the model received."""

    dialect: str
    """gemini, chat or responses; `other` for a request that no dialect has."""
    path: str
    agent: str | None = None
    """Which agent's tools were offered to the model; None for a request without tools."""
    script: str | None = None
    argument: str = ""
    step: int = 0
    """How many results of tools the model sees since the prompt."""
    results: tuple[str, ...] = ()
    body: dict[str, Any] = field(default_factory=dict)


class AcpModel:
    """Serves the scripted model on a loopback port for as long as the context is open."""

    def __init__(self, *, port: int = 0) -> None:
        self.requests: list[AcpModelRequest] = []
        self.url = ""
        self._arrived = asyncio.Condition()
        self._server = LoopbackServer(self._app(), port)

    def _app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/{version}/models/{call}", self._gemini, methods=["POST"]),
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
                Route("/v1/responses", self._responses, methods=["POST"]),
                Route("/{path:path}", self._other, methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]),
            ]
        )

    def of(self, script: str) -> list[AcpModelRequest]:
        """The requests of one script that came with tools, in order of arrival."""
        return [r for r in self.requests if r.script == script and r.agent]

    async def wait_for(self, wanted: Callable[[AcpModelRequest], bool], timeout: float = 60.0) -> AcpModelRequest:
        """The first request that `wanted` accepts, including past ones. Raises TimeoutError if none comes."""

        def first() -> AcpModelRequest | None:
            return next((r for r in self.requests if wanted(r)), None)

        async with asyncio.timeout(timeout), self._arrived:
            await self._arrived.wait_for(lambda: first() is not None)
        found = first()
        assert found is not None
        return found

    async def __aenter__(self) -> AcpModel:
        await self._server.start()
        self.url = self._server.url
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._server.stop()

    async def _gemini(self, request: Request) -> Response:
        streams = request.path_params["call"].endswith(":streamGenerateContent")
        return await self._answer(Gemini(), request, streams=streams)

    async def _chat(self, request: Request) -> Response:
        return await self._answer(Chat(), request)

    async def _responses(self, request: Request) -> Response:
        return await self._answer(Responses(), request)

    async def _answer(self, dialect: Dialect, request: Request, *, streams: bool = False) -> Response:
        body: dict[str, Any] = json.loads(await request.body())
        asked = dialect.read(body)
        call = read_prompt(asked.conversation, asked.tools)
        results = tuple(result.text for result in call.results)
        agent = agent_of(asked.tools)
        path = request.url.path
        await self._note(AcpModelRequest(dialect.name, path, agent, call.name, call.argument, call.step, results, body))
        blocks = _structured() if asked.structured else respond(call)
        return _response(dialect, blocks, asked, streams=streams or bool(body.get("stream")))

    async def _other(self, request: Request) -> Response:
        await self._note(AcpModelRequest("other", request.url.path))
        return JSONResponse({"error": {"message": f"no {request.url.path}"}}, status_code=404)

    async def _note(self, request: AcpModelRequest) -> None:
        async with self._arrived:
            self.requests.append(request)
            self._arrived.notify_all()


def _structured() -> list[AcpBlock]:
    return [ScriptText(json.dumps(_STRUCTURED), chunks=1)]


def _response(dialect: Dialect, blocks: list[AcpBlock], asked: Asked, *, streams: bool) -> Response:
    refused = next((block for block in blocks if isinstance(block, ApiError)), None)
    if refused is not None:
        return JSONResponse(dialect.refusal(refused), status_code=refused.status)
    if streams:
        return EventStream(dialect.events(blocks, asked))
    return JSONResponse(dialect.answer(blocks, asked))
