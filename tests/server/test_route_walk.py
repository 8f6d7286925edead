"""No route and no socket answers without a decision of the gate. All of them are tried over the real port."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable

import pytest

from fairlead.agents.claude.dialin.routes import EVENTS, SOCKET, AcceptPost
from fairlead.agents.claude.tui.hook_server import PATH, RunHook
from fairlead.auth.api import credentials
from fairlead.model.auth import SCOPES
from fairlead.model.web.requests import ServiceCall
from fairlead.model.web.routes import SendToStreams
from fairlead.model.web.sockets import Pause, RecallState
from fairlead.server.app import App
from fairlead.server.discovery import discover
from fairlead.server.doors import Door, OpenDoor, open_door
from fairlead.server.listeners import Binding
from fairlead.server.requests import access_requirement
from fairlead.server.webui import FILES, ReadAsset
from fairlead.sessions.api import folders, transcripts
from server.fakes import OTHER, SESSION, Served, raw_request, serving

SHELL = {"GET /", "GET /app", "GET /app/{path...}", "GET /assets/{name}", *(f"GET /{name}" for name in FILES)}
"""The web UI's files, which are the same for every client."""
SIGNING_IN = {
    "GET /api/auth/status",
    "GET /invite",
    "POST /api/auth/login",
    "POST /api/auth/register",
}
PUBLIC = {
    "GET /health",
    "GET /health/ready",
    "POST /v1/login",
    *SHELL,
    *(name.replace("/", "/claudecodeui/", 1) for name in SIGNING_IN),
}
"""All public routes by name. A new public route must be added here."""

OPEN = {re.sub(r"\{[^}]*\}", SESSION, named) for named in PUBLIC}

PUBLIC_ON_DOORS = {"native": {"POST /v1/login"}, "claudecodeui": SIGNING_IN}
"""Public routes in addition to /health, by protocol: its own status and login calls. A new one must be added here."""

ORIGINS = ("null", "http://evil", "http://localhost.evil", "http://localhost:1")
HOSTS = ("attacker.test", "127.0.0.1.nip.io", "", "localhost", "localhost.")


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as running:
        yield running


def path_of(template: str) -> str:
    return re.sub(r"\{[^}]*\}", SESSION, template)


def request(kind: str, path: str, headers: Iterable[str]) -> bytes:
    method = "GET" if kind == "WS" else kind
    upgrade = (
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    )
    lines = [f"{method} {path} HTTP/1.1", *(upgrade if kind == "WS" else ("Connection: close",)), *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def doors(served: Served) -> list[tuple[str, str]]:
    """All served routes and sockets, and some unknown paths."""
    routes = [(route.method, path_of(route.path)) for route in served.app.table.routes]
    sockets = [("WS", path_of(route.path)) for route in served.app.table.sockets]
    unknown = [
        ("GET", "/nothing"),
        ("GET", "/assets"),
        ("GET", "/index.html"),
        ("POST", "/v1"),
        ("OPTIONS", "/v1/sessions"),
        ("PUT", "/v1/me"),
    ]
    return [*routes, *sockets, *unknown, ("WS", "/nothing"), ("WS", "/v1/me"), ("GET", "/v1/ws")]


async def status(served: Served, kind: str, path: str, *headers: str, host: str | None = None) -> int:
    named = f"127.0.0.1:{served.port}" if host is None else host
    answer = await raw_request(served.port, request(kind, path, (f"Host: {named}", *headers)))
    return int(answer.split(b" ", 2)[1])


async def statuses(served: Served, *headers: str, host: str | None = None) -> dict[str, int]:
    asked = doors(served)
    # Fewer than the unauthenticated limit of one address: on a slow machine the surplus would be closed.
    places = asyncio.Semaphore(served.app._parts.limits.waiting_per_address // 2)

    async def ask(kind: str, path: str) -> int:
        async with places:
            return await status(served, kind, path, *headers, host=host)

    found = await asyncio.gather(*(ask(kind, path) for kind, path in asked))
    return {f"{kind} {path}": number for (kind, path), number in zip(asked, found, strict=True)}


async def test_public_routes_are_the_named_ones(served: Served) -> None:
    public = {f"{route.method} {route.path}" for route in served.app.table.routes if route.access == "public"}
    assert public == PUBLIC
    doors = {"agent", *SCOPES}
    assert all(access_requirement(socket, {}).access in doors for socket in served.app.table.sockets)


async def test_without_a_credential_everything_is_401(served: Served) -> None:
    found = await statuses(served)
    assert len(found) > 40
    assert {door for door, number in found.items() if number != 401} == OPEN
    assert found["GET /health"] == 200


@pytest.mark.parametrize(
    "credential",
    [
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        "Bearer fl_aaaaaaaa_" + "a" * 52,
        "Basic YWRtaW46YWRtaW4=",
        "Bearer undefined",
    ],
)
async def test_with_a_wrong_credential_everything_is_401(served: Served, credential: str) -> None:
    found = await statuses(served, f"Authorization: {credential}")
    assert {door for door, number in found.items() if number != 401} == OPEN


@pytest.mark.parametrize("origin", ORIGINS)
async def test_a_foreign_origin_is_403_even_with_the_admins_token(served: Served, origin: str) -> None:
    found = await statuses(served, f"Origin: {origin}", f"Authorization: Bearer {served.admin}")
    assert set(found.values()) == {403}


@pytest.mark.parametrize("host", HOSTS)
async def test_a_foreign_host_is_refused_even_with_the_admins_token(served: Served, host: str) -> None:
    found = await statuses(served, f"Authorization: Bearer {served.admin}", host=host)
    assert set(found.values()) <= {400, 421}


async def test_two_hosts_are_refused(served: Served) -> None:
    own = f"Host: 127.0.0.1:{served.port}"
    found = await statuses(served, own, f"Authorization: Bearer {served.admin}")
    assert set(found.values()) == {400}


async def test_our_own_origin_opens_the_socket(served: Served) -> None:
    own = f"Origin: http://127.0.0.1:{served.port}"
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    headers = (f"Host: localhost:{served.port}", own, f"Authorization: Bearer {served.admin}")
    writer.write(request("WS", "/v1/ws", headers))
    assert b" 101 " in await reader.readline()
    writer.close()
    await writer.wait_closed()


async def test_every_route_refuses_a_credential_that_has_all_other_scopes(served: Served) -> None:
    for route in served.app.table.routes:
        if route.access in ("public", "any"):
            continue
        others = [scope for scope in SCOPES if scope not in (route.access, "admin")]
        token = await served.token(*others, name=route.name)
        assert await status(served, route.method, path_of(route.path), f"Authorization: Bearer {token}") == 403
    for socket in served.app.table.sockets:
        others = [scope for scope in SCOPES if scope not in (socket.access, "admin")]
        token = await served.token(*others, name=f"socket {socket.name}")
        assert await status(served, "WS", path_of(socket.path), f"Authorization: Bearer {token}") == 403


async def test_unknown_path_is_404_for_authenticated_clients(served: Served) -> None:
    token = f"Authorization: Bearer {served.admin}"
    assert await status(served, "GET", "/nothing", token) == 404
    assert await status(served, "WS", "/nothing", token) == 404
    assert await status(served, "WS", "/v1/me", token) == 404
    assert await status(served, "PUT", "/v1/me", token) == 405


async def test_nothing_allows_another_origin_to_read(served: Served) -> None:
    for kind, path in doors(served):
        if kind == "WS":
            continue
        headers = (f"Host: 127.0.0.1:{served.port}", f"Authorization: Bearer {served.admin}")
        answer = await raw_request(served.port, request(kind, path, headers))
        head = answer.partition(b"\r\n\r\n")[0].lower()
        assert b"access-control" not in head
        assert b"set-cookie" not in head
        assert b"\r\nserver:" not in head
        assert b"x-content-type-options: nosniff" in head
        assert b"cross-origin-opener-policy: same-origin" in head
        # The web UI's files contain nothing secret; everything else must not be cached.
        assert b"cache-control: no-store" in head or (f"{kind} {path}" in OPEN and b"cache-control: no-cache" in head)
        assert b"content-security-policy: " in head


async def test_every_service_call_has_a_performer(served: Served) -> None:
    modules = {module.__name__ for module in (credentials, folders, transcripts)}
    declared = {kind for kind in ServiceCall.__subclasses__() if kind.__module__ in modules}
    own = {AcceptPost, ReadAsset, RunHook, SendToStreams, RecallState, Pause}
    assert set(served.app.dispatcher._handlers) == {*declared, *own}


async def test_an_agents_token_opens_its_own_routes_and_nothing_else(served: Served) -> None:
    token = f"Authorization: Bearer {served.credentials.agents.issue(SESSION)}"
    found = await statuses(served, token)
    own = {f"WS {path_of(SOCKET)}", f"POST {path_of(EVENTS)}", f"POST {path_of(PATH)}"}
    assert {door for door, number in found.items() if number != 401} == OPEN | own
    assert found[f"WS {path_of(SOCKET)}"] == 404, "let in, though nobody is expected"
    served.credentials.agents.issue(OTHER)
    assert await status(served, "WS", SOCKET.format(session=OTHER), token) == 401
    served.credentials.agents.revoke(SESSION)
    assert await status(served, "WS", path_of(SOCKET), token) == 401
    assert [record.kind for record in served.credentials.list("token")] == ["token"], "it is on no list"


@pytest.mark.rules("S004-317")
async def test_a_request_without_an_upgrade_gets_an_answer_and_no_socket(served: Served) -> None:
    token = f"Authorization: Bearer {served.credentials.agents.issue(SESSION)}"
    assert await status(served, "GET", path_of(SOCKET), token) == 401
    assert await status(served, "GET", path_of(SOCKET), f"Authorization: Bearer {served.admin}") == 404


# --- every protocol on its own door


@pytest.fixture
async def doored() -> AsyncIterator[tuple[Served, list[OpenDoor]]]:
    opened = [open_door(Door(name=one.name, port=0), one, Binding(port=0)) for one in discover()]
    async with serving(doors=opened) as running:
        yield running, opened


async def walk(door: OpenDoor, app: App, *headers: str, host: str | None = None) -> dict[str, int]:
    """The status of every route and socket of the door, and of unknown paths."""
    paths = [(route.method, route.path) for route in app.table.routes]
    paths += [("WS", socket.path) for socket in app.table.sockets]
    found = {}
    for kind, path in [*paths, ("GET", "/nothing"), ("WS", "/nothing"), ("PUT", "/health")]:
        named = f"Host: {host or f'127.0.0.1:{door.port}'}"
        answer = await raw_request(door.port, request(kind, path_of(path), (named, *headers)))
        found[f"{kind} {path}"] = int(answer.split(b" ", 2)[1])
    return found


async def test_no_door_answers_without_a_decision_of_the_gate(doored: tuple[Served, list[OpenDoor]]) -> None:
    served, opened = doored
    assert len(opened) == len(served.behind) >= 2
    admin = f"Authorization: Bearer {served.admin}"
    for door, app in zip(opened, served.behind, strict=True):
        public = {"GET /health", *PUBLIC_ON_DOORS.get(door.name, ())}
        found = await walk(door, app)
        assert {name for name, number in found.items() if number != 401} == public
        found = await walk(door, app, "Cookie: token=x", "Authorization: Bearer wrong")
        assert {name for name, number in found.items() if number != 401} == public
        for origin in (*ORIGINS, served.url):
            assert set((await walk(door, app, f"Origin: {origin}", admin)).values()) == {403}
        for host in ("attacker.test", f"127.0.0.1:{served.port}"):
            assert set((await walk(door, app, admin, host=host)).values()) == {421}


async def test_a_door_has_its_own_protocol_and_nothing_of_the_others(doored: tuple[Served, list[OpenDoor]]) -> None:
    served, opened = doored
    for door, app in zip(opened, served.behind, strict=True):
        assert [route.name for route in app.table.routes if route not in door.protocol.routes] == ["health"]
        assert app.table.sockets == [*door.protocol.sockets, *door.protocol.door_sockets]
