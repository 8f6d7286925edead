"""REST about plugins: the list as the app reads it, disabling a plugin, and the files of pages."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clients.claudecodeui.test_ccui_plugins import PluginSocketHarness, open_harness
from plugins.harness import BOARD, write_plugin

pytestmark = pytest.mark.process

LIST = "/claudecodeui/api/plugins"


@pytest.fixture
async def board(tmp_path: Path) -> AsyncIterator[PluginSocketHarness]:
    """A server with the sample plugin, not yet enabled."""
    (tmp_path / "board").symlink_to(BOARD)
    async with open_harness(tmp_path) as made:
        yield made


async def test_the_list_shows_manifests_and_the_state_of_each_plugin(board: PluginSocketHarness) -> None:
    async with board.served.client() as http:
        (plugin,) = (await http.get(LIST)).json()["plugins"]
        assert plugin["name"] == "board" and plugin["displayName"] == "Board" and plugin["entry"] == "index.js"
        assert (plugin["icon"], plugin["slot"], plugin["type"], plugin["version"]) == (
            "icon.svg",
            "tab",
            "module",
            "1.0.0",
        )
        assert plugin["server"].endswith(" server.py")
        assert (plugin["enabled"], plugin["serverRunning"], plugin["state"]) == (False, False, "disabled")
        await board.plugins.runs("board")
        (plugin,) = (await http.get(LIST)).json()["plugins"]
        assert (plugin["enabled"], plugin["serverRunning"], plugin["healthy"]) == (True, True, True)


async def test_a_plugin_that_has_changed_is_off(tmp_path: Path) -> None:
    made = write_plugin(tmp_path, server="")
    async with open_harness(tmp_path) as harness, harness.served.client() as http:
        await harness.plugins.enable()
        asset = f"{LIST}/strange/assets/index.js"
        assert (await http.get(asset)).status_code == 200
        (made / "index.js").write_text("alert('another')")
        (plugin,) = (await http.get(LIST)).json()["plugins"]
        assert (plugin["enabled"], plugin["state"]) == (False, "changed") and "fairlead plugins enable" in plugin[
            "problem"
        ]
        refused = await http.get(asset)
        assert refused.status_code == 409 and "changed" in refused.json()["error"]


async def test_a_plugin_can_be_disabled_here_but_enabled_only_by_command(board: PluginSocketHarness) -> None:
    await board.plugins.runs("board")
    path = f"{LIST}/board/enable"
    async with board.served.client() as http, board.served.client(await board.served.token("terminal")) as guest:
        assert (await guest.put(path, json={"enabled": False})).status_code == 403
        refused = await http.put(path, json={"enabled": True})
        assert refused.status_code == 403 and "fairlead plugins enable board" in refused.json()["error"]
        assert (await http.put(path, json={"enabled": "maybe"})).status_code == 400
        assert (await http.put(f"{LIST}/other/enable", json={"enabled": False})).status_code == 404
        assert (await http.put(path, json={"enabled": False})).json()["enabled"] is False
    assert (await board.plugins.view("board")).state == "disabled"


async def test_files_of_a_page_need_a_credential_and_are_sandboxed(board: PluginSocketHarness) -> None:
    path = f"{LIST}/board/assets/index.js"
    async with board.served.client() as http, board.served.client(None) as stranger:
        assert (await http.get(path)).status_code == 404, "not before it is enabled"
        await board.plugins.enable("board")
        got = await http.get(path)
        assert got.text == (BOARD / "index.js").read_text()
        assert got.headers["content-type"].startswith("text/javascript")
        policy = got.headers["content-security-policy"]
        assert policy.startswith("sandbox allow-scripts; default-src 'none'") and "connect-src" not in policy
        assert got.headers["x-content-type-options"] == "nosniff" and "set-cookie" not in got.headers
        again = await http.get(path, headers={"if-none-match": got.headers["etag"]})
        assert again.status_code == 304
        assert (await http.get(f"{LIST}/board/assets/icon.svg")).headers["content-type"] == "image/svg+xml"
        assert (await stranger.get(path)).status_code == 401


@pytest.mark.parametrize(
    "path",
    [
        "manifest.json",
        "server.py",
        "how.txt/",
        "secrets.pem",
        ".env",
        ".git/config.json",
        "node_modules/x/index.js",
        "..%2f..%2fetc%2fpasswd",
        "%2e%2e/strange/index.js",
        "/index.js",
        "link.js",
        "missing.js",
        "dist/server.js",
        "./dist/server.js",
    ],
)
async def test_nothing_else_of_the_folder_is_served(tmp_path: Path, path: str) -> None:
    made = write_plugin(tmp_path, server=["sh", "-c", "cat"])
    for name in ("secrets.pem", ".env", ".git/config.json", "node_modules/x/index.js", "dist/index.js"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text("secret")
    (made / "link.js").symlink_to("/etc/hostname")
    async with open_harness(tmp_path) as harness, harness.served.client() as http:
        await harness.plugins.enable()
        assert (await http.get(f"{LIST}/strange/assets/dist%2Findex.js")).status_code == 200, "as its app asks"
        assert (await http.get(f"{LIST}/strange/assets/{path}")).status_code == 404


async def test_the_file_of_the_plugins_server_is_not_served(tmp_path: Path) -> None:
    made = write_plugin(tmp_path, server="dist/server.js")
    (made / "dist").mkdir()
    (made / "dist" / "server.js").write_text("const key = 1;")
    async with open_harness(tmp_path) as harness, harness.served.client() as http:
        await harness.plugins.enable()
        for path in ("dist/server.js", "dist//server.js", "dist/./server.js", "DIST/server.js"):
            assert (await http.get(f"{LIST}/strange/assets/{path}")).status_code == 404, path
