"""A page's calls to its plugin's server, through a real server to a real plugin."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clients.claudecodeui.test_ccui_plugins import PluginSocketHarness, open_harness
from fairlead.plugins.api import CallPlugin
from plugins.harness import ADMIN, write_plugin

pytestmark = pytest.mark.process

RPC = "/claudecodeui/api/plugins/strange/rpc"

SERVER = """
import http.server, json, sys, threading

class Echo(http.server.BaseHTTPRequestHandler):
    def answer(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
        if self.path == "/hang-up":
            return self.connection.close()
        if self.path == "/large":
            told = b"x" * 2_000_000
        else:
            told = json.dumps([self.command, self.path, body, dict(self.headers.items())]).encode()
        self.send_response({"/elsewhere": 302, "/broken": 500}.get(self.path, 200))
        self.send_header("location", "http://127.0.0.1:1/")
        self.send_header("set-cookie", "a=1")
        self.send_header("content-security-policy", "default-src *")
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)
    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

server = http.server.HTTPServer(("127.0.0.1", 0), Echo)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(json.dumps({"ready": True, "port": server.server_port}), flush=True)
sys.stdin.read()
"""


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[PluginSocketHarness]:
    made = write_plugin(tmp_path)
    (made / "server.py").write_text(SERVER)
    async with open_harness(tmp_path, message_bytes=1_000_000) as served:
        await served.plugins.runs()
        yield served


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
async def test_a_call_reaches_the_plugin_unchanged_but_without_credentials(
    harness: PluginSocketHarness, method: str
) -> None:
    body = "" if method == "GET" else '{"a":1}'
    async with harness.served.client(cookie="a=b", **{"x-plugin-a": "1"}) as http:
        got = await http.request(method, f"{RPC}/stats/a%20b?x=1&token=secret", content=body)
    command, path, content, headers = got.json()
    assert (command, path, content) == (method, "/stats/a%20b?x=1", body)
    names = {name.lower() for name in headers}
    assert names <= {"host", "accept", "accept-encoding", "connection", "user-agent", "content-type", "content-length"}
    assert harness.served.admin not in str(headers)
    assert got.headers["content-type"] == "application/json" and "set-cookie" not in got.headers
    assert got.headers["content-security-policy"].startswith("default-src 'none'"), "ours, not the plugin's"


async def test_the_plugins_status_is_forwarded_but_not_its_redirect(harness: PluginSocketHarness) -> None:
    async with harness.served.client() as http:
        assert (await http.get(f"{RPC}/broken")).status_code == 500
        elsewhere = await http.get(f"{RPC}/elsewhere")
        assert elsewhere.status_code == 302 and "location" not in elsewhere.headers, "nobody is sent elsewhere"


async def test_an_invalid_answer_of_the_plugin_is_an_error(harness: PluginSocketHarness) -> None:
    async with harness.served.client() as http:
        for path in ("large", "hang-up"):
            response = await http.get(f"{RPC}/{path}")
            assert response.status_code == 502 and response.json()["code"] == "PLUGIN_FAILED", path
        assert (await http.get(f"{RPC}/well")).status_code == 200


async def test_calls_need_a_scope_and_a_known_plugin(harness: PluginSocketHarness) -> None:
    async with harness.served.client(await harness.served.token("view", "chat")) as guest:
        assert (await guest.get(f"{RPC}/x")).status_code == 403
    async with harness.served.client() as http:
        assert (await http.get(f"{RPC.replace('strange', 'other')}/x")).status_code == 404
    answer = await harness.plugins.plugins.call(ADMIN, CallPlugin(name="strange", method="GET", path=""))
    assert answer.status == 200
