"""Files that users attach to a message: the port of their store, and the content blocks for the agent. Pure.

`uploads.service` implements the port: a folder for each user, with generated names. A user who knows a name gets the
file only if it is their own.
"""

import base64
import re
from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from fairlead.model.content import Content, ImageBlock, OtherBlock
from fairlead.model.web.requests import Response, ServiceCall
from fairlead.uploads.image_type import fits, image_type

FILES: Final = 10
FILE_BYTES: Final = 10 << 20
"""Limits of one form, and of one file in it: those of claudecodeui's app."""
IMAGE_BYTES: Final = 5 * (1 << 20) * 3 // 4
"""The Messages API takes images of at most 5 MiB, counted in base64."""
PDF_BYTES: Final = 4 << 20
"""A larger PDF may have more pages than the API takes at once; an agent reads it page by page from its path."""
TEXT_BYTES: Final = 128 << 10
"""About 32,000 tokens; of a longer text an agent reads the parts it needs."""
BLOCK_BYTES: Final = 16 << 20
"""Limit of all files inside one message: in base64 that is two thirds of what the API takes in one request."""

NAME: Final = re.compile(r"[0-9a-f]{32}(\.[a-z0-9]{1,10})?")
"""The names of the store's files."""


class Upload(msgspec.Struct, frozen=True):
    """A file of the store. `name`, `mime` and `size` come from the user's browser and are for display only."""

    path: str
    name: str = ""
    mime: str = ""
    size: int | None = None


class ClaimedUpload(msgspec.Struct, frozen=True):
    """A file that goes with a message. `block` is its content block for the agent; None: the agent may read it by its
    path."""

    upload: Upload
    block: Content | None = None


class FileForm(msgspec.Struct, frozen=True):
    """A form whose `field` has at least one and at most `files` files; other fields are ignored."""

    field: str
    files: int = FILES
    file_bytes: int = FILE_BYTES


class AcceptForm(ServiceCall["tuple[Upload, ...]"], frozen=True):
    """-> tuple of `Upload`, in the form's order: the body of this request, read now, stored completely or not at all.
    BadRequest, TooLarge, TooMany, Unavailable. Only for routes that declare `form`."""

    form: FileForm


class OpenIntake(ServiceCall["Intake"], frozen=True):
    """-> `Intake` for the files of one form. TooMany"""


class ClaimUploads(ServiceCall["tuple[ClaimedUpload, ...]"], frozen=True):
    """-> tuple of `StoredUploads`: those of the given files that are the user's own. Stale if one of these is gone."""

    uploads: tuple[Upload, ...]


class ReadUpload(ServiceCall[Response], frozen=True):
    """-> `Response` that a browser saves, or shows as a picture, and never executes. NotFound"""

    name: str


class Intake(Protocol):
    """Receives files, one after the other. They are not visible before `keep`. Only `keep` is asynchronous; each method
    except `drop` may raise Unavailable."""

    def begin(self, name: str, mime: str) -> None: ...
    def write(self, data: bytes) -> None: ...
    async def keep(self) -> tuple[Upload, ...]: ...
    def drop(self) -> None:
        """Delete everything received; does nothing after `keep`."""


def owned_uploads(folder: str, uploads: Sequence[Upload]) -> list[Upload]:
    """The uploads that are files directly in this folder, given by full path or by bare name; each once."""
    found: dict[str, Upload] = {}
    for upload in uploads:
        name = upload.path.removeprefix(f"{folder}/")
        if NAME.fullmatch(name):
            found.setdefault(name, msgspec.structs.replace(upload, path=f"{folder}/{name}"))
    return list(found.values())


def block_of(data: bytes, name: str) -> Content | None:
    """The content block of a file, chosen by its content, not by its name; None if the file cannot be a block."""
    kind = image_type(data)
    if kind:
        return ImageBlock(_source(kind, data)) if len(data) <= IMAGE_BYTES and fits(data) else None
    if data.startswith(b"%PDF-"):
        return _document(_source("application/pdf", data), name) if len(data) <= PDF_BYTES else None
    text = _text(data)
    return _document({"type": "text", "media_type": "text/plain", "data": text}, name) if text.strip() else None


def _source(kind: str, data: bytes) -> dict[str, str]:
    return {"type": "base64", "media_type": kind, "data": base64.b64encode(data).decode()}


def _document(source: dict[str, str], name: str) -> OtherBlock:
    return OtherBlock({"type": "document", "source": source, **({"title": name} if name else {})})


def _text(data: bytes) -> str:
    """The data as text; empty if it is not text, or too long."""
    if len(data) > TEXT_BYTES or b"\0" in data:
        return ""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return ""
