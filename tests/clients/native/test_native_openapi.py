"""The OpenAPI document is valid and covers every route, and the file in the docs matches the routes."""

import os
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import pytest
from openapi_spec_validator import validate

from fairlead.auth.login_codes import BadCode
from fairlead.clients.native import PROTOCOL, ROUTES
from fairlead.clients.native.decode import KINDS
from fairlead.clients.native.openapi import document
from fairlead.model.errors import FairleadError
from fairlead.monitoring.routes import own_routes

ALL = (*ROUTES, *own_routes("1", []).routes)
REFERENCE = Path(__file__).parents[3] / "docs" / "reference"


@pytest.fixture(scope="module")
def made() -> Any:
    return msgspec.json.decode(msgspec.json.encode(document(ROUTES, version("fairlead"))))


def test_it_is_a_valid_openapi_document(made: Any) -> None:
    validate(made)


def test_every_route_is_in_it_with_its_parameters(made: Any) -> None:
    operations = {
        (method.upper(), path): operation for path, item in made["paths"].items() for method, operation in item.items()
    }
    assert operations.keys() == {(route.method, route.path) for route in ROUTES}
    for (_, path), operation in operations.items():
        named = {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "path"}
        assert named == set(re.findall(r"\{(\w+)", path))
        assert operation["summary"]


def test_ids_of_operations_are_unique(made: Any) -> None:
    names = [operation["operationId"] for item in made["paths"].values() for operation in item.values()]
    assert len(names) == len(set(names))


def test_only_public_calls_are_described_as_public(made: Any) -> None:
    is_open = {
        operation["operationId"]
        for item in made["paths"].values()
        for operation in item.values()
        if operation.get("security") == []
    }
    assert is_open == {route.name for route in ROUTES if route.access == "public"} == {"login"}


def test_the_file_in_the_docs_is_up_to_date(made: Any) -> None:
    """Rewrite the file with FAIRLEAD_WRITE=1."""
    file = REFERENCE / "openapi.json"
    expected = msgspec.json.format(msgspec.json.encode(made), indent=1).decode() + "\n"
    if os.environ.get("FAIRLEAD_WRITE") == "1":
        file.write_text(expected)
    assert file.read_text() == expected


def test_the_page_on_rest_names_every_call_and_no_other() -> None:
    page = (REFERENCE / "rest.md").read_text()
    named = set(re.findall(r"^\| `(GET|POST|PUT|PATCH|DELETE) (/[^` ]*)` \|", page, re.MULTILINE))
    served = {(route.method, route.path) for route in ALL}
    assert named == served


def test_the_page_on_rest_gives_the_scope_of_every_call() -> None:
    page = (REFERENCE / "rest.md").read_text()
    documented = dict(re.findall(r"^\| `((?:GET|POST|PUT|PATCH|DELETE) /[^` ]*)` \| (\w+) \|", page, re.MULTILINE))
    assert documented == {
        f"{route.method} {route.path}": route.access for route in (*ROUTES, *own_routes("1", []).routes)
    }


def codes(root: type[FairleadError]) -> dict[str, int]:
    """Every error code that a call can return, and its status."""
    own = {root.code: root.status} if root.__module__ in _MODULES else {}
    return own | {code: status for kind in root.__subclasses__() for code, status in codes(kind).items()}


_MODULES = {
    "fairlead.model.errors",
    "fairlead.clients.native.codec",
    "fairlead.clients.native.decode",
    "fairlead.auth.login_codes",
    "fairlead.notifications.api.targets",
}
_GATE = {
    "bad_host": 400,
    "foreign_host": 421,
    "foreign_origin": 403,
    "cross_site": 403,
    "no_credential": 401,
    "bad_credential": 401,
}


def test_the_page_on_rest_names_every_code_with_its_status() -> None:
    assert BadCode.__module__ in _MODULES
    page = (REFERENCE / "rest.md").read_text()
    documented = {code: int(status) for code, status in re.findall(r"^\| `(\w+)` \| (\d{3}) \|", page, re.MULTILINE)}
    assert documented == codes(FairleadError) | _GATE


def test_the_page_on_the_socket_names_every_frame() -> None:
    page = (REFERENCE / "native-protocol.md").read_text()
    for kind in (*KINDS, "subscribe", "unsubscribe", "typing", "ping"):
        assert re.search(rf"^\| `{kind}` \|", page, re.MULTILINE), kind
    for kind in ("hello", "subscribed", "unsubscribed", "reply", "error", "pong", "presence", "typing"):
        assert re.search(rf"^\| `{kind}` \|", page, re.MULTILINE), kind
    for kind in ("input", "resize", "size", "redraw", "exit"):
        assert re.search(rf"^\| `{kind}` \|", page, re.MULTILINE), kind
    assert all(f"`{socket.path}`" in page for socket in PROTOCOL.sockets)
