"""REST for the files of a session's folder: read-only, and always as data in JSON, never as a page of this origin."""

import base64
from collections.abc import Iterable, Iterator
from typing import Final, Literal

import msgspec

from fairlead.clients.native.sessions import PATH
from fairlead.model import queries as q
from fairlead.model.web.requests import do
from fairlead.model.web.routes import Param, Request, Routes, Steps, json_response
from fairlead.sessions.api.workspace import FileEntry, ReadFile, ReadTree

routes = Routes()

LONGEST_TEXT: Final = 1 << 20
"""Bytes of a text that are sent; the rest is left out, and the answer says so."""
LARGEST_PICTURE: Final = 5 << 20
_LOOKED_AT: Final = 8192
_PICTURES: Final = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}


class FolderFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The entries of one folder, folders first. `folder` is the session's folder, `path` the folder listed, relative to
    it."""

    folder: str
    path: str
    entries: tuple[FileEntry, ...]


class FileNames(msgspec.Struct, frozen=True):
    """Paths relative to the session's folder; folders end with a slash."""

    names: tuple[str, ...]


class FileContent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`text` of a text file, `data` (base64) and `type` of a picture; other files have neither. `cut`: the text goes
    on."""

    path: str
    size: int
    kind: Literal["text", "picture", "other"]
    text: str = ""
    data: str = ""
    type: str = ""
    cut: bool = False


@routes.get(
    f"{PATH}/files",
    "view",
    "files.list",
    answer=FolderFiles,
    query=(Param("path", str, "A folder below the session's folder; by default that folder itself."),),
)
def folder(request: Request) -> Steps:
    """The content of a folder inside the session's folder."""
    cwd = (yield from do(q.GetSession(request.session))).summary.cwd
    path = request.query.get("path", "").strip("/")
    found = yield from do(ReadTree(f"{cwd}/{path}" if path else cwd, depth=0, within=cwd))
    return json_response(FolderFiles(folder=cwd, path=path, entries=found))


@routes.get(f"{PATH}/files/names", "view", "files.names", answer=FileNames)
def names(request: Request) -> Steps:
    """The names of all files below the session's folder, up to 5,000: for `@` mentions."""
    cwd = (yield from do(q.GetSession(request.session))).summary.cwd
    found = yield from do(ReadTree(cwd, within=cwd))
    return json_response(FileNames(tuple(_flat(found))))


@routes.get(
    f"{PATH}/files/content",
    "view",
    "files.read",
    answer=FileContent,
    query=(Param("path", str, "A file below the session's folder.", required=True),),
)
def content(request: Request) -> Steps:
    """A file of the session's folder: its text, a picture, or only its size."""
    cwd = (yield from do(q.GetSession(request.session))).summary.cwd
    path = request.query.get("path", "")
    data = yield from do(ReadFile(cwd, path, within=cwd))
    return json_response(_content(path, data))


def _flat(entries: Iterable[FileEntry], above: str = "") -> Iterator[str]:
    for entry in entries:
        name = f"{above}{entry.name}"
        if entry.folder:
            yield f"{name}/"
            yield from _flat(entry.children, f"{name}/")
        else:
            yield name


def _content(path: str, data: bytes) -> FileContent:
    kind = picture_type(data)
    if kind and len(data) <= LARGEST_PICTURE:
        encoded = base64.b64encode(data).decode()
        return FileContent(path=path, size=len(data), kind="picture", data=encoded, type=kind)
    if kind or b"\0" in data[:_LOOKED_AT]:
        return FileContent(path=path, size=len(data), kind="other")
    text = data[:LONGEST_TEXT].decode("utf-8", "replace")
    return FileContent(path=path, size=len(data), kind="text", text=text, cut=len(data) > LONGEST_TEXT)


def picture_type(data: bytes) -> str:
    """The type of a picture by its first bytes; empty for anything else. A drawing in SVG is text here: it can run
    scripts."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for head, kind in _PICTURES.items() if data.startswith(head)), "")
