"""The web UI's files: the shell for every page, hashed assets cached forever, and no other file of the disk."""

import gzip
from pathlib import Path

import pytest

from fairlead.model.auth import Identity
from fairlead.model.errors import NotFound
from fairlead.model.web.requests import Head, Response
from fairlead.model.web.routes import Request, Route
from fairlead.server.route_table import RouteTable
from fairlead.server.webui import POLICY, ReadAsset, WebUi

ANONYMOUS = Identity("", "", "", frozenset())


@pytest.fixture
def built(tmp_path: Path) -> WebUi:
    (tmp_path / "dist" / "assets").mkdir(parents=True)
    (tmp_path / "dist" / "index.html").write_text("<title>the shell</title>")
    (tmp_path / "dist" / "sw.js").write_text("// worker")
    (tmp_path / "dist" / "assets" / "main-abc123.js").write_text("// code")
    (tmp_path / "secret").write_text("secret")
    return WebUi(tmp_path / "dist")


def get(shell: WebUi, path: str, *headers: tuple[str, str]) -> Response:
    """Handle a GET as the server would: find the route, run its steps, and perform their requests."""
    route, params = found(shell, path)
    head = Head(method="GET", path=path, headers=headers)
    steps = route.handle(Request(head=head, who=ANONYMOUS, fresh="", params=params))
    wanted = next(steps)
    assert isinstance(wanted, ReadAsset)
    with pytest.raises(StopIteration) as end:
        steps.send(shell.read(wanted))
    answer = end.value.value
    assert isinstance(answer, Response)
    return answer


def found(shell: WebUi, path: str) -> tuple[Route, dict[str, str]]:
    match = RouteTable([shell.protocol()]).http("GET", path)
    assert match is not None, path
    return match.route, match.params


@pytest.mark.parametrize("path", ["/", "/app", "/app/", "/app/s/one", "/app/approvals", "/app/../../secret"])
def test_every_page_is_the_shell(built: WebUi, path: str) -> None:
    answer = get(built, path)
    assert (answer.status, answer.body) == (200, b"<title>the shell</title>")
    headers = dict(answer.headers)
    assert headers["content-security-policy"] == POLICY
    assert headers["cache-control"] == "no-cache"


def test_the_policy_allows_no_inline_script_and_no_other_origin() -> None:
    rules = dict(rule.strip().split(" ", 1) for rule in POLICY.split(";"))
    assert (rules["default-src"], rules["script-src"], rules["connect-src"]) == ("'none'", "'self'", "'self'")
    assert "unsafe" not in POLICY and "http" not in POLICY and "*" not in POLICY
    assert (rules["base-uri"], rules["form-action"], rules["frame-ancestors"]) == ("'none'",) * 3


def test_assets_are_cached_forever_and_the_worker_is_not(built: WebUi) -> None:
    asset = get(built, "/assets/main-abc123.js")
    assert (asset.body, asset.content_type) == (b"// code", "text/javascript; charset=utf-8")
    assert "immutable" in dict(asset.headers)["cache-control"]
    assert dict(get(built, "/sw.js").headers)["cache-control"] == "no-cache"


@pytest.mark.parametrize("name", ["..", "..%2fsecret", ".hidden", "none.js", "a\0b", "x" * 200])
def test_only_files_of_the_build_are_served(built: WebUi, name: str) -> None:
    with pytest.raises(NotFound):
        get(built, f"/assets/{name}")


def test_without_a_build_the_front_page_says_so(tmp_path: Path) -> None:
    answer = get(WebUi(tmp_path), "/")
    assert answer.status == 200 and b"was not built" in answer.body and b"make serve" in answer.body
    with pytest.raises(NotFound):
        get(WebUi(tmp_path), "/sw.js")


def test_worker_may_connect_to_its_own_origin_only(built: WebUi) -> None:
    headers = dict(get(built, "/sw.js").headers)
    assert headers["content-security-policy"] == "default-src 'none'; connect-src 'self'"


def test_assets_are_compressed_for_browsers_that_accept_gzip(built: WebUi) -> None:
    for _ in range(2):
        answer = get(built, "/assets/main-abc123.js", ("accept-encoding", "gzip, deflate, br"))
        assert dict(answer.headers)["content-encoding"] == "gzip"
        assert gzip.decompress(answer.body) == b"// code"
    plain = get(built, "/assets/main-abc123.js")
    assert plain.body == b"// code" and "content-encoding" not in dict(plain.headers)
    assert dict(plain.headers)["vary"] == "accept-encoding"
