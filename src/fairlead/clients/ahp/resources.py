"""Files and folders of the gateway's machine, inside the allowed roots: to read, never to write. Pure."""

import base64
from collections.abc import Generator
from posixpath import basename, dirname
from typing import Any, Final

from fairlead.clients.ahp.channels import path_of
from fairlead.clients.ahp.wire import PERMISSION_DENIED, AhpError, Fields, text_of
from fairlead.model.errors import NotAllowed, NotFound
from fairlead.model.formats.timestamps import iso_timestamp
from fairlead.model.web.requests import do
from fairlead.sessions.api.workspace import FileEntry, ReadFile, ReadTree

Steps = Generator[Any, Any, Fields]

WRITING: Final = frozenset(
    {"resourceWrite", "resourceCopy", "resourceDelete", "resourceMove", "resourceMkdir", "createResourceWatch"}
)


def read_resource(params: Fields) -> Steps:
    path = path_of(text_of(params, "uri"))
    data = yield from do(ReadFile(dirname(path), basename(path)))
    if params.get("encoding") != "base64":
        try:
            return {"data": data.decode(), "encoding": "utf-8"}
        except UnicodeDecodeError:
            pass
    return {"data": base64.b64encode(data).decode(), "encoding": "base64"}


def list_resource(params: Fields) -> Steps:
    entries = yield from do(ReadTree(path_of(text_of(params, "uri")), 0))
    return {"entries": [{"name": entry.name, "type": _kind(entry)} for entry in entries]}


def resolve_resource(params: Fields) -> Steps:
    uri = text_of(params, "uri")
    path = path_of(uri).rstrip("/") or "/"
    try:
        yield ReadTree(path, 0)
    except (NotFound, NotAllowed):
        # Not a folder inside the roots: a file is known from its folder, which must be inside them.
        entries = yield from do(ReadTree(dirname(path), 0))
        found = next((entry for entry in entries if entry.name == basename(path)), None)
        if found is None:
            raise NotFound("file", path) from None
        return {"uri": uri, "type": _kind(found), "size": found.size, "mtime": iso_timestamp(found.modified)}
    return {"uri": uri, "type": "directory"}


def refuse_writing(method: str) -> AhpError:
    return AhpError(PERMISSION_DENIED, f"{method} is not available: this host's files are only read.")


def _kind(entry: FileEntry) -> str:
    return "directory" if entry.folder else "file"


HANDLERS: Final = {
    "resourceRead": read_resource,
    "resourceList": list_resource,
    "resourceResolve": resolve_resource,
}
