"""The files of a session over REST: always JSON, always inside the session's folder."""

import base64
import json
from typing import Any

import pytest

from clients.native.test_native_rest import S, ask
from fairlead.model import queries as q
from fairlead.model.store import Summary
from fairlead.model.web.requests import Response
from fairlead.sessions.api.workspace import FileEntry, ReadFile, ReadTree

VIEW = q.SessionView(summary=Summary(session=S, cwd="/srv/app"), log_id="l", head=1)
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


def answered(name: str, answer: Any, **query: str) -> tuple[Any, Any]:
    """The step that follows the session's view, and the decoded answer."""
    (view, step), response = ask(name, VIEW, answer, query=query)
    assert view == q.GetSession(S)
    assert isinstance(response, Response)
    assert response.content_type.startswith("application/json")
    return step, json.loads(response.body)


def test_a_folder_is_listed_inside_the_sessions_folder() -> None:
    entry = FileEntry("a.txt", "/srv/app/src/a.txt", size=3, modified=5)
    step, body = answered("files.list", (entry,), path="/src/")
    assert step == ReadTree("/srv/app/src", depth=0, within="/srv/app")
    assert (body["folder"], body["path"], body["entries"][0]["name"]) == ("/srv/app", "src", "a.txt")
    assert answered("files.list", ())[0] == ReadTree("/srv/app", depth=0, within="/srv/app")


def test_names_are_relative_and_folders_end_with_a_slash() -> None:
    tree = (FileEntry("src", "/srv/app/src", True, children=(FileEntry("a.py", "/x"),)), FileEntry("b", "/y"))
    step, body = answered("files.names", tree)
    assert step == ReadTree("/srv/app", within="/srv/app")
    assert body["names"] == ["src/", "src/a.py", "b"]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"hello\n", {"kind": "text", "text": "hello\n"}),
        (b"", {"kind": "text"}),
        (b"caf\xe9", {"kind": "text", "text": "caf\ufffd"}),
        (b"<svg onload=alert(1)>", {"kind": "text", "text": "<svg onload=alert(1)>"}),
        (b"\x7fELF\0\0", {"kind": "other"}),
        (PNG, {"kind": "picture", "type": "image/png", "data": base64.b64encode(PNG).decode()}),
        (b"RIFF\0\0\0\0WEBPVP8 ", {"kind": "picture", "type": "image/webp"}),
        (PNG + b"\0" * (5 << 20), {"kind": "other"}),
    ],
)
def test_a_file_is_text_a_picture_or_only_its_size(data: bytes, expected: dict[str, str]) -> None:
    step, body = answered("files.read", data, path="a/b")
    assert step == ReadFile("/srv/app", "a/b", within="/srv/app")
    assert body["size"] == len(data)
    assert {name: body[name] for name in expected} == expected


def test_a_long_text_is_cut_and_says_so() -> None:
    _, body = answered("files.read", b"x" * ((1 << 20) + 1), path="a")
    assert (len(body["text"]), body["cut"]) == (1 << 20, True)
