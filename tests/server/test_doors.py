"""Doors: on its own port one protocol is served at the root and no other protocol is served; the checks are those of
the main port."""

import asyncio
import base64
import contextlib
import os
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from argon2 import profiles
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from fairlead.auth import passwords
from fairlead.auth.login_throttle import PER_ADDRESS
from fairlead.model.errors import NotFound
from fairlead.model.queries import GetSession
from fairlead.model.web.requests import Response
from fairlead.model.web.routes import ClientProtocol, FileStream, Request, Route, Steps, json_response
from fairlead.model.web.sockets import CloseSocket, Effect, Handshake, SilentProtocol, SocketRoute
from fairlead.server import static
from fairlead.server.app import App
from fairlead.server.discovery import discover
from fairlead.server.doors import Door, OpenDoor, check_doors, open_door
from fairlead.server.errors import BadServerSetting, PortInUse, RouteClash, UnsafeBind
from fairlead.server.listeners import Binding
from fairlead.server.route_table import RouteTable, at_main_port
from fairlead.server.sockets import REVOKED
from fairlead.server.static import ReadStatic, StaticFiles
from local_http import local_client
from patience import PATIENCE
from server.fakes import SESSION, Served, raw_request, serving

TLS = Path(__file__).parent / "tls"


def read(request: Request) -> Steps:
    view = yield GetSession(SESSION)
    return json_response({"title": view.summary.title, "query": request.query, "base": request.base})


def status_of(request: Request) -> Steps:
    yield from ()
    return json_response({"ok": True})


class Staying(SilentProtocol):
    """Sends nothing."""

    def __init__(self, opening: Handshake) -> None:
        pass

    def opened(self) -> list[Effect]:
        return []


class Greeting(SilentProtocol):
    """Closes the socket at once."""

    def __init__(self, opening: Handshake) -> None:
        self.opening = opening

    def opened(self) -> list[Effect]:
        return [CloseSocket(4000, self.opening.params["id"])]


def toy(name: str = "toy", **more: Any) -> ClientProtocol:
    token: dict[str, Any] = {"token_query": "token", "token_header": "x-api-key"}
    return ClientProtocol(
        **{
            "name": name,
            "prefix": f"/{name}",
            "root_paths": ("/api/claude",),
            "door_options": ("form",),
            "routes": (
                Route(method="GET", path="/api/claude/sessions", access="view", name="list", handle=read, **token),
                Route(method="GET", path="/api/claudette", access="view", name="other", handle=read, **token),
                Route(method="POST", path="/api/settings", access="admin", name="settings", handle=read, **token),
                Route(method="GET", path="/api/status", access="public", name="status", handle=status_of),
            ),
            "sockets": (SocketRoute(path="/ws/{id}", access="view", name="toy socket", open=Greeting, **token),),
            **more,
        }
    )


@dataclass
class Opened:
    served: Served
    port: int
    app: App
    door: OpenDoor

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self, **headers: str) -> httpx2.AsyncClient:
        return local_client(base_url=self.url, headers=headers)

    async def status(self, method: str, path: str, **headers: str) -> int:
        async with self.client(**headers) as client:
            return (await client.request(method, path)).status_code


@contextlib.asynccontextmanager
async def with_door(door: Door | None = None, **binding: Any) -> AsyncIterator[Opened]:
    main = Binding(port=0, **binding)
    opened = open_door(door or Door(name="toy", port=0), toy(), main)
    protocols = [toy(), toy("second", root_paths=(), sockets=())]
    async with serving(protocols=protocols, binding=main, doors=[opened]) as served:
        yield Opened(served, opened.port, served.behind[0], opened)


@pytest.fixture
async def opened() -> AsyncIterator[Opened]:
    async with with_door() as found:
        yield found


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<title>front end</title>")
    (folder / "assets" / "app.js").write_text("let a")
    (folder / "assets" / "index.html").write_text("below")
    (folder / ".env").write_text("secret")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("secret")
    (tmp_path / "outside.txt").write_text("secret")
    (folder / "leaving").symlink_to(tmp_path / "outside.txt")
    (folder / "away").symlink_to(tmp_path)
    (folder / "inside.js").symlink_to(folder / "assets" / "app.js")
    (folder / "hidden.txt").symlink_to(folder / ".env")
    os.mkfifo(folder / "pipe")
    return folder


# --- where a protocol answers


async def test_on_its_door_a_protocol_is_served_at_the_root_and_nothing_else_is(opened: Opened) -> None:
    token = {"authorization": f"Bearer {opened.served.admin}"}
    assert await opened.status("GET", "/api/claude/sessions", **token) == 200
    assert await opened.status("GET", "/api/claudette", **token) == 200
    assert await opened.status("POST", "/api/settings", **token) == 200
    assert await opened.status("GET", "/api/status") == 200
    for path in ("/toy/api/claude/sessions", "/second/api/settings", "/v1/me", "/"):
        assert await opened.status("GET", path, **token) == 404
    async with opened.client() as client:
        assert (await client.get("/health")).json() == {"status": "ok", "protocols": ["toy"]}, "and no version of ours"


async def test_on_the_main_port_a_protocol_is_below_its_prefix_and_at_its_root_paths(opened: Opened) -> None:
    served = opened.served
    async with served.client() as client:

        async def found(path: str) -> int:
            return (await client.get(path)).status_code

        assert await found("/toy/api/claude/sessions") == await found("/api/claude/sessions") == 200
        assert await found("/toy/api/claudette") == 200
        assert await found("/api/claudette") == 404, "a root path ends at a slash"
        assert await found("/api/status") == 404
        assert await found("/second/api/claude/sessions") == 200
        assert await found("/second/api/status") == 200


async def test_sockets_are_at_the_root_of_the_door_and_of_the_main_port(opened: Opened) -> None:
    assert await closed_with(opened.served.port, "/ws/a", opened.served.admin) == b"a"
    assert await closed_with(opened.served.port, "/toy/ws/b", opened.served.admin) == b"b"
    assert await closed_with(opened.port, "/ws/c", opened.served.admin) == b"c"


async def closed_with(port: int, path: str, token: str) -> bytes:
    """The reason in the close frame that the socket sends at once."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        f"X-Api-Key: {token}\r\n\r\n".encode()
    )
    try:
        async with asyncio.timeout(PATIENCE):
            head = await reader.readuntil(b"\r\n\r\n")
            assert b" 101 " in head.splitlines()[0]
            _, length = await reader.readexactly(2)
            return (await reader.readexactly(length))[2:]
    finally:
        writer.close()


async def test_handler_builds_urls_with_the_address_of_the_door(opened: Opened) -> None:
    async with opened.client(authorization=f"Bearer {opened.served.admin}") as client:
        assert (await client.get("/api/claude/sessions")).json()["base"] == opened.url


async def test_options_of_a_door_are_query_defaults() -> None:
    async with with_door(Door(name="toy", port=0, options={"form": "late"})) as opened:
        async with opened.client(authorization=f"Bearer {opened.served.admin}") as client:
            assert (await client.get("/api/claude/sessions")).json()["query"] == {"form": "late"}
            given = await client.get("/api/claude/sessions?form=early&last=3")
            assert given.json()["query"] == {"form": "early", "last": "3"}
        async with opened.served.client() as client:
            assert (await client.get("/api/claude/sessions")).json()["query"] == {}, "of the door alone"


async def test_door_uses_the_certificate_of_the_main_port() -> None:
    trusted = ssl.create_default_context(cafile=str(TLS / "cert.pem"))
    trusted.check_hostname = False
    async with with_door(tls_cert=TLS / "cert.pem", tls_key=TLS / "key.pem") as opened:
        assert opened.door.url == f"https://127.0.0.1:{opened.port}"
        async with httpx2.AsyncClient(base_url=opened.door.url, verify=trusted, trust_env=False) as client:
            headers = {"x-api-key": opened.served.admin, "origin": opened.door.url}
            assert (await client.get("/api/claude/sessions", headers=headers)).json()["base"] == opened.door.url
            plain = {"x-api-key": opened.served.admin, "origin": opened.url}
            assert (await client.get("/api/claude/sessions", headers=plain)).status_code == 403


def test_two_protocols_may_not_claim_one_path_at_the_root() -> None:
    with pytest.raises(RouteClash, match=r"toy \(list\) and by other \(list\)"):
        RouteTable([at_main_port(toy(sockets=())), at_main_port(toy("other", sockets=()))])
    with pytest.raises(RouteClash, match="/ws/"):
        RouteTable([at_main_port(toy(root_paths=())), at_main_port(toy("other", root_paths=()))])


@pytest.mark.parametrize("prefix", ["toy", "/toy/", "/"])
def test_malformed_prefix_is_refused(prefix: str) -> None:
    with pytest.raises(ValueError, match="prefix"):
        toy(prefix=prefix)


# --- the gate, on doors too


async def everything(opened: Opened, **headers: str) -> dict[str, int]:
    paths = [(route.method, route.path) for route in opened.app.table.routes]
    return {f"{method} {path}": await opened.status(method, path, **headers) for method, path in paths}


async def test_without_a_credential_only_public_routes_answer(opened: Opened) -> None:
    found = await everything(opened)
    assert {name for name, number in found.items() if number != 401} == {"GET /health", "GET /api/status"}
    assert await opened.status("GET", "/nothing") == 401


async def test_foreign_hosts_and_origins_are_refused_on_a_door(opened: Opened) -> None:
    admin = f"Bearer {opened.served.admin}"
    for origin in ("http://evil.example", "null", opened.served.url):
        assert set((await everything(opened, authorization=admin, origin=origin)).values()) == {403}
    for host in ("evil.example", f"127.0.0.1:{opened.served.port}"):
        assert set((await everything(opened, authorization=admin, host=host)).values()) == {421}
    assert await opened.status("GET", "/api/claude/sessions", authorization=admin, origin=opened.url) == 200
    async with opened.served.client(origin=opened.url) as client:
        assert (await client.get("/toy/api/claudette")).status_code == 403, "a door's page is a stranger elsewhere"


async def test_scopes_are_enforced_on_a_door(opened: Opened) -> None:
    token = await opened.served.token("view")
    assert await opened.status("GET", "/api/claude/sessions", authorization=f"Bearer {token}") == 200
    assert await opened.status("POST", "/api/settings", authorization=f"Bearer {token}") == 403


async def test_token_is_accepted_where_the_protocol_carries_it_and_never_in_a_cookie(opened: Opened) -> None:
    token, path = opened.served.admin, "/api/claude/sessions"
    taken = [{"x-api-key": token}, {"x-api-key": f"Bearer {token}"}, {"authorization": f"Bearer {token}"}]
    assert [await opened.status("GET", path, **headers) for headers in taken] == [200, 200, 200]
    assert await opened.status("GET", f"{path}?token={token}") == 200
    refused = [
        {"cookie": f"token={token}; x-api-key={token}"},
        {"x-api-key": "wrong"},
        {"x-api-key": ""},
        {"x-token": token},
        {"x-api-key": token, "authorization": "Bearer wrong"},
    ]
    assert [await opened.status("GET", path, **headers) for headers in refused] == [401] * 5
    assert await opened.status("GET", f"{path}?token=wrong", **{"x-api-key": token}) == 200, "the header counts"
    twice = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{opened.port}\r\nConnection: close\r\n"
    answer = await raw_request(opened.port, f"{twice}X-Api-Key: {token}\r\nX-Api-Key: {token}\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize("header", ["cookie", "authorization", "X-Api-Key", "origin"])
def test_route_cannot_declare_these_headers_for_its_token(header: str) -> None:
    with pytest.raises(ValueError, match="cannot carry a token"):
        Route(method="GET", path="/x", access="view", name="x", handle=read, token_header=header)
    with pytest.raises(ValueError, match="cannot carry a token"):
        SocketRoute(path="/x", access="view", name="x", open=Greeting, token_header=header)


async def test_a_revoked_token_opens_nothing_more_on_a_door(opened: Opened) -> None:
    token = await opened.served.token("view", name="short")
    path = "/api/claude/sessions"
    assert await opened.status("GET", path, authorization=f"Bearer {token}") == 200
    await opened.served.credentials.revoke("token", opened.served.tokens["short"])
    assert await opened.status("GET", path, authorization=f"Bearer {token}") == 401


# --- signing in by HTTP Basic


def typed(name: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"


ANN = typed("ann", "correct horse")


@pytest.fixture
async def basic(site: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Opened]:
    monkeypatch.setattr(passwords, "PARAMETERS", profiles.CHEAPEST)
    async with with_door(Door(name="toy", port=0, static=site, login="basic")) as found:
        await found.served.credentials.accounts.add("ann", "correct horse", ("view",))
        yield found


async def test_a_door_with_basic_asks_for_a_name_and_a_password_even_for_its_pages(basic: Opened) -> None:
    async with basic.client() as client:
        for path in ("/", "/assets/app.js", "/nothing", "/api/claude/sessions"):
            answer = await client.get(path)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == 'Basic realm="Fairlead", charset="UTF-8"'
        wrong = await client.get("/", headers={"authorization": typed("ann", "wrong horse")})
        assert (wrong.status_code, wrong.headers["www-authenticate"][:5]) == (401, "Basic")
        assert (await client.get("/health")).status_code == 200
        client.headers["authorization"] = ANN
        assert (await client.get("/", headers={"accept": "text/html"})).text == "<title>front end</title>"
        assert (await client.get("/api/claude/sessions")).status_code == 200
        assert (await client.post("/api/settings")).status_code == 403, "the user's scopes decide"
        assert "set-cookie" not in (await client.get("/")).headers
    token = await basic.served.token("view")
    assert await basic.status("GET", "/", authorization=typed("anybody", token)) == 200
    assert await basic.status("GET", "/", authorization=f"Bearer {token}") == 200


async def test_basic_works_only_on_its_own_door(basic: Opened) -> None:
    async with basic.served.client(None, authorization=ANN) as client:
        answer = await client.get("/v1/me")
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    async with with_door(Door(name="toy", port=0)) as other:
        await other.served.credentials.accounts.add("ann", "correct horse", ("view",))
        assert await other.status("GET", "/api/claude/sessions", authorization=ANN) == 401


async def upgraded(opened: Opened, *headers: str) -> bytes:
    lines = (
        "GET /ws/a HTTP/1.1",
        f"Host: 127.0.0.1:{opened.port}",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        *headers,
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", opened.port)
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
    try:
        return await asyncio.wait_for(reader.readline(), PATIENCE)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def test_browser_credentials_open_a_socket_only_for_pages_of_the_door(basic: Opened) -> None:
    own, signed_in = f"Origin: {basic.url}", f"Authorization: {ANN}"
    assert b" 101 " in await upgraded(basic, own, signed_in, "Sec-Fetch-Site: same-origin")
    assert b" 401 " in await upgraded(basic, own)
    assert b" 401 " in await upgraded(basic, own, f"Authorization: {typed('ann', 'wrong')}")
    for origin in (basic.served.url, "http://evil.example", "null"):
        assert b" 403 " in await upgraded(basic, f"Origin: {origin}", signed_in)
    assert b" 403 " in await upgraded(basic, own, signed_in, "Sec-Fetch-Site: same-site")


async def test_other_pages_cannot_use_the_credentials_that_the_browser_remembers(basic: Opened) -> None:
    """A form, an image, a script and a frame, from another port of this host and from another site."""
    asked = {
        "form": ("POST", {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document", "origin": basic.served.url}),
        "form without a name": ("POST", {"sec-fetch-mode": "navigate", "origin": "null"}),
        "picture": ("GET", {"sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}),
        "script": ("GET", {"sec-fetch-mode": "no-cors", "sec-fetch-dest": "script"}),
        "frame": ("GET", {"sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}),
    }
    for path in ("/api/claude/sessions", "/api/settings", "/assets/app.js"):
        for site in ("same-site", "cross-site"):
            for method, headers in asked.values():
                found = await basic.status(method, path, authorization=ANN, **headers, **{"sec-fetch-site": site})
                assert found == 403, (path, site, headers)
    # A link to the front end may be followed; the requests that the front end then makes are same-origin.
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert await basic.status("GET", "/", authorization=ANN, **link) == 200
    assert await basic.status("GET", "/api/claude/sessions", authorization=ANN, **link) == 403


async def test_password_guesses_at_a_door_are_limited_and_other_pages_cannot_guess(basic: Opened) -> None:
    for number in range(PER_ADDRESS + 5):
        guess = typed("ann", f"guess {number}")
        assert await basic.status("GET", "/", authorization=guess, **{"sec-fetch-site": "cross-site"}) == 403
    for number in range(PER_ADDRESS):
        assert await basic.status("GET", "/", authorization=typed("ann", f"guess {number}")) == 401
    async with basic.client(authorization=ANN) as client:
        late = await client.get("/")
        assert (late.status_code, late.json()["error"]["code"]) == (429, "too_many_attempts")
        assert int(late.headers["retry-after"]) > 0
    assert b" 429 " in await upgraded(basic, f"Authorization: {ANN}")


async def test_changing_a_password_closes_the_sockets_that_it_opened(basic: Opened) -> None:
    stays = toy(sockets=(SocketRoute(path="/stay/{id}", access="view", name="stay", open=Staying),))
    door = open_door(Door(name="toy", port=0, login="basic"), stays, Binding(port=0))
    async with serving(protocols=[stays], doors=[door]) as served:
        await served.credentials.accounts.add("ann", "correct horse", ("view",))
        uri, headers = f"ws://127.0.0.1:{door.port}/stay/a", {"Authorization": ANN}
        async with connect(uri, additional_headers=headers, proxy=None) as socket:
            await served.credentials.accounts.set_password("ann", "battery staple")
            with pytest.raises(ConnectionClosed) as closed:
                await socket.recv()
            assert closed.value.rcvd is not None and closed.value.rcvd.code == REVOKED


@pytest.mark.parametrize("name", ["mylifedb", "cognova"])
def test_protocols_whose_pages_cannot_sign_in_have_basic_unless_their_door_says_otherwise(name: str) -> None:
    protocol = next(one for one in discover() if one.name == name)
    for chosen, expected in (("", "basic"), ("token", "token"), ("basic", "basic")):
        opened = open_door(Door(name=name, port=0, login=chosen), protocol, Binding(port=0))  # type: ignore[arg-type]
        assert opened.login == expected
        for listener in opened.sockets:
            listener.close()


def test_claudecodeui_has_its_own_login() -> None:
    assert {one.name for one in discover() if one.door_login == "basic"} == {"mylifedb", "cognova"}


# --- static files


@pytest.fixture
async def front(site: Path) -> AsyncIterator[Opened]:
    async with with_door(Door(name="toy", port=0, static=site)) as found:
        yield found


async def test_front_end_is_served_without_a_credential(front: Opened) -> None:
    async with front.client(accept="text/html") as client:
        page = await client.get("/")
        assert (page.status_code, page.text) == (200, "<title>front end</title>")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert "connect-src 'self'" in page.headers["content-security-policy"]
        assert page.headers["x-content-type-options"] == "nosniff"
        assert (await client.get("/sessions/17")).text == page.text, "the front end's own paths"
        assert (await client.get("/assets/")).text == "below"
        assert (await client.get("/assets/app.js")).headers["content-type"] == "text/javascript; charset=utf-8"
        assert (await client.get("/inside.js")).text == "let a", "a link that stays inside"
        assert (await client.head("/assets/app.js")).headers["content-length"] == "5"
    assert await front.status("GET", "/", host="evil.example") == 421
    assert await front.status("GET", "/", origin="http://evil.example") == 403


async def test_the_protocol_comes_before_the_files(front: Opened, site: Path) -> None:
    (site / "api").mkdir()
    (site / "api" / "settings").write_text("a file")
    (site / "health").write_text("a file")
    assert await front.status("GET", "/api/claude/sessions") == 401
    assert await front.status("GET", "/api/settings", authorization=f"Bearer {front.served.admin}") == 405
    async with front.client() as client:
        assert (await client.get("/health")).json()["status"] == "ok"


async def test_missing_file_is_a_404_and_not_the_index_page(front: Opened) -> None:
    assert await front.status("GET", "/assets/gone.js", accept="text/html") == 404
    assert await front.status("GET", "/api/unknown", accept="*/*") == 404
    assert await front.status("GET", "/assets", accept="*/*") == 404, "no listing"
    assert await front.status("POST", "/index.html") == 401, "other methods are for those who may come in"


OUTSIDE = [
    "../outside.txt",
    "assets/../../outside.txt",
    "..",
    "/etc/passwd",
    "//etc/passwd",
    ".env",
    ".git/config",
    "assets/./app.js",
    "leaving",
    "away/outside.txt",
    "hidden.txt",
    "pipe",
    "assets",
    "a\0b",
    "x" * 5000,
    "assets/app.js/more",
    "",
]


@pytest.mark.parametrize("path", OUTSIDE)
def test_nothing_outside_the_folder_is_served(site: Path, path: str) -> None:
    (site / "index.html").unlink()
    with pytest.raises(NotFound):
        StaticFiles(site).read(ReadStatic(path, page=True))


@pytest.mark.parametrize(
    "target",
    [
        "/../outside.txt",
        "/%2e%2e/outside.txt",
        "/assets/%2e%2e/%2e%2e/outside.txt",
        "/assets/..%2f..%2foutside.txt",
        "/leaving",
        "/%2eenv",
        "/.env",
        "//outside.txt",
        "/away/outside.txt",
        "/hidden.txt",
    ],
)
async def test_no_spelling_of_a_path_leaves_the_folder(front: Opened, target: str) -> None:
    head = f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{front.port}\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    answer = await raw_request(front.port, head.encode())
    assert answer.startswith(b"HTTP/1.1 404")
    assert b"secret" not in answer


async def test_file_that_the_browser_has_already_is_not_sent_again(front: Opened, site: Path) -> None:
    async with front.client() as client:
        first = await client.get("/assets/app.js")
        tag = first.headers["etag"]
        for known in (tag, f"W/{tag}", f'"other", {tag}'):
            again = await client.get("/assets/app.js", headers={"if-none-match": known})
            assert (again.status_code, again.content) == (304, b"")
        (site / "assets" / "app.js").write_text("let another")
        assert (await client.get("/assets/app.js", headers={"if-none-match": tag})).text == "let another"


async def test_large_file_is_sent_whole_and_head_sends_only_its_headers(front: Opened, site: Path) -> None:
    data = os.urandom(3 * static.PIECE + 17)
    (site / "large.bin").write_bytes(data)
    async with front.client() as client:
        whole = await client.get("/large.bin")
        assert (whole.content, whole.headers["content-length"]) == (data, str(len(data)))
        alone = await client.head("/large.bin")
        assert (alone.content, alone.headers["content-length"]) == (b"", str(len(data)))
        for size in (static.PIECE - 1, static.PIECE, static.PIECE + 1):
            (site / "large.bin").write_bytes(data[:size])
            assert (await client.get("/large.bin")).content == data[:size]


def test_large_file_is_not_read_before_it_is_streamed(site: Path) -> None:
    (site / "large.bin").write_bytes(bytes(static.PIECE + 1))
    found = StaticFiles(site).read(ReadStatic("large.bin"))
    assert isinstance(found, FileStream)
    assert (found.size, found.file.tell()) == (static.PIECE + 1, 0)
    found.file.close()


def test_file_that_cannot_be_opened_is_not_found(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*_: Any) -> int:
        raise PermissionError

    monkeypatch.setattr(os, "open", closed)
    with pytest.raises(NotFound):
        StaticFiles(site).read(ReadStatic("assets/app.js"))


def test_symlinked_folder_is_served(site: Path, tmp_path: Path) -> None:
    link = tmp_path / "current"
    link.symlink_to(site)
    found = StaticFiles(link).read(ReadStatic("assets/app.js"))
    assert isinstance(found, Response) and found.body == b"let a"
    assert StaticFiles(site).read(ReadStatic("inside.js")).content_type.startswith("text/javascript")


# --- doors that cannot be opened


def refused(doors: list[Door], data: Path, main: int = 8787) -> str:
    with pytest.raises(BadServerSetting) as wrong:
        check_doors(doors, [toy(), toy("other")], Binding(port=main), data)
    assert wrong.value.exit_code == 2
    return wrong.value.message


def test_impossible_door_is_reported_before_any_port_is_opened(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    assert "the protocols are: other, toy" in refused([Door(name="cognova", port=1)], data)
    listing = Door(name="toy", port=1, options={"listing": "yes"})
    assert "does not have the option listing; its options are: form, static, public_url" in refused([listing], data)
    same = [Door(name="toy", port=9000), Door(name="other", port=9000)]
    assert "port 9000 is the door of toy already" in refused(same, data)
    assert "port 8787 is the main port already" in refused([Door(name="toy", port=8787)], data)
    assert "is not a folder" in refused([Door(name="toy", port=1, static=tmp_path / "gone")], data)
    for static_folder in (data, tmp_path, data / "below"):
        static_folder.mkdir(exist_ok=True)
        assert "data folder" in refused([Door(name="toy", port=1, static=static_folder)], data)
    anywhere = [Door(name="toy", port=0), Door(name="other", port=0)]
    assert set(check_doors(anywhere, [toy(), toy("other")], Binding(port=0), data)) == {"toy", "other"}


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield int(listener.getsockname()[1])


def test_a_port_in_use_names_the_door(taken: int) -> None:
    with pytest.raises(PortInUse, match=rf"{taken} is in use .* --door toy=PORT"):
        open_door(Door(name="toy", port=taken), toy(), Binding(port=0))


def test_a_door_on_a_network_needs_its_own_protection() -> None:
    main = Binding(host="0.0.0.0", port=0, public_url="https://gateway.example")
    with pytest.raises(UnsafeBind, match=r"--door toy=0,public_url=https"):
        open_door(Door(name="toy", port=0), toy(), main)
    door = open_door(Door(name="toy", port=0, public_url="https://toy.example"), toy(), main)
    for listener in door.sockets:
        listener.close()
    assert door.url == "https://toy.example"
    safe = Binding(host="0.0.0.0", port=0, tls_cert=TLS / "cert.pem", tls_key=TLS / "key.pem")
    for listener in open_door(Door(name="toy", port=0), toy(), safe).sockets:
        listener.close()
