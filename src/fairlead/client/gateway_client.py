"""Client of one gateway: calls of its REST interface, and the sessions that it has."""

import uuid
from collections.abc import AsyncIterator
from typing import Any, TypeVar

import httpx2
import msgspec

from fairlead.client.connection import response_error, tls_context, unreachable
from fairlead.client.endpoint import EndpointOptions, GatewayEndpoint, Locate, segment
from fairlead.client.errors import CommandFailed
from fairlead.client.session_client import SessionClient
from fairlead.clients.native.schemas import AnswerBody, CreateSession
from fairlead.model.commands import Reply, Settings, WorktreeChoice
from fairlead.model.store import SessionPage, Summary

T = TypeVar("T")

READ_SECONDS = 90.0
"""A response may depend on a reply of the agent: the longest of those (initialize, mcp) takes 60 s."""


def connect(url: str | None = None, token: str | None = None, *, data: str | None = None) -> "GatewayClient":
    """Return a client of the gateway at `url`; without one, of the gateway that runs on the data folder `data` (by
    default that of the command line) on this machine, with its token. Raises UsageError, Unreachable, Denied."""
    return GatewayClient(EndpointOptions(url, token, data).find)


def http_client(endpoint: GatewayEndpoint) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        base_url=endpoint.url,
        headers={"authorization": f"Bearer {endpoint.token}"},
        # Without TLS there is nothing to verify, and loading the list of certificate authorities is slow.
        verify=tls_context(endpoint) or False,
        timeout=httpx2.Timeout(READ_SECONDS, connect=10.0),
        # A proxy in the environment variables is for other hosts, never for this machine.
        trust_env=not endpoint.local,
    )


class GatewayClient:
    """A client of a gateway, to be used with `async with`. Nothing here prints; every failure is a `ClientError`.

    `locate` is asked for the address again after a lost connection."""

    def __init__(self, locate: Locate) -> None:
        self.locate = locate
        self._endpoint = locate()
        self._http = http_client(self._endpoint)

    async def __aenter__(self) -> "GatewayClient":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._http.aclose()

    @property
    def local(self) -> bool:
        """Whether the gateway is on this machine, so that it sees the same folders."""
        return self._endpoint.local

    async def refresh(self) -> None:
        """Locate the gateway again: it may have restarted at another address."""
        endpoint = self.locate()
        if endpoint != self._endpoint:
            await self._http.aclose()
            self._endpoint, self._http = endpoint, http_client(endpoint)

    # --- any call -------------------------------------------------------------------------------------------

    async def call(
        self, method: str, path: str, kind: type[T], *, query: dict[str, Any] | None = None, body: Any = None
    ) -> T:
        """Make a call of the REST interface and decode its answer as `kind`."""
        content = None if body is None else msgspec.json.encode(body)
        headers = {} if body is None else {"content-type": "application/json"}
        try:
            answer = await self._http.request(method, path, params=query, content=content, headers=headers)
        except httpx2.TransportError as error:
            raise unreachable(self._endpoint.url, error) from error
        if answer.is_success:
            try:
                return msgspec.json.decode(answer.content, type=kind)
            except msgspec.DecodeError as error:
                raise CommandFailed(f"{self._endpoint.url} sent an invalid answer: {error}") from error
        raise response_error(answer.status_code, answer.content, self._endpoint.url)

    async def download(self, path: str, **query: Any) -> AsyncIterator[bytes]:
        """Yield the body of an answer as it arrives, however long it is."""
        try:
            async with self._http.stream("GET", path, params=query) as answer:
                if not answer.is_success:
                    raise response_error(answer.status_code, await answer.aread(), self._endpoint.url)
                async for chunk in answer.aiter_bytes():
                    yield chunk
        except httpx2.TransportError as error:
            raise unreachable(self._endpoint.url, error) from error

    async def get(self, path: str, kind: type[T], /, **query: Any) -> T:
        wanted = {name: value for name, value in query.items() if value not in (None, "")}
        return await self.call("GET", path, kind, query=wanted)

    async def post(self, path: str, kind: type[T], body: Any) -> T:
        return await self.call("POST", path, kind, body=body)

    # --- sessions -------------------------------------------------------------------------------------------

    async def sessions(self, **query: Any) -> AsyncIterator[Summary]:
        """Yield the sessions of all pages, newest first. `query`: the parameters of `GET /v1/sessions`."""
        before: str | None = None
        while True:
            page = await self.get("/v1/sessions", SessionPage, before=before, limit=200, **query)
            for summary in page.sessions:
                yield summary
            if not page.next:
                return
            before = page.next

    async def start(
        self,
        cwd: str = "",
        *,
        worktree: WorktreeChoice | None = None,
        agent: str = "",
        title: str = "",
        settings: Settings | None = None,
        session: str | None = None,
    ) -> SessionClient:
        """Open a session. `cwd` and `agent` are by default those of the gateway; `worktree` is the branch of the
        repository in `cwd` in whose worktree it works; `session` is the new session's id, a UUID, drawn if omitted."""
        body = CreateSession(
            session=session or str(uuid.uuid4()),
            cwd=cwd,
            worktree=worktree,
            title=title,
            agent=agent,
            settings=settings or Settings(),
        )
        made = await self.post("/v1/sessions", Reply, body)
        return self.session(made.session)

    def session(self, id: str) -> SessionClient:
        """Return the client of a session that exists. Nothing is sent."""
        return SessionClient(self, id)

    async def answer(self, request: str, body: AnswerBody) -> Reply:
        """Answer a permission request, a question or a plan. The first answer wins: a later one is refused."""
        return await self.post(f"/v1/permissions/{segment(request)}", Reply, body)
