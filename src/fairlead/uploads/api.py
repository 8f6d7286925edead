"""Files that people send along with a message: the port of their store, and what an agent is given of them. Pure.

The room `stores` implements it: a folder for each user, with names of our own making. Whoever knows a name is given the
file only if it is that user's own.
"""

import base64
import re
from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from fairlead.model.content import Content, ImageBlock, OtherBlock
from fairlead.model.requests import ServiceCall
from fairlead.uploads.image_type import fits, image_type

FILES: Final = 10
FILE_BYTES: Final = 10 << 20
"""Of one form, and of one file in it: as many as claudecodeui's app lets a person choose."""
IMAGE_BYTES: Final = 5 * (1 << 20) * 3 // 4
"""The Messages API takes images of at most 5 MiB, counted in base64."""
PDF_BYTES: Final = 4 << 20
"""A longer one may have more pages than the API takes at once; an agent reads it page by page."""
TEXT_BYTES: Final = 128 << 10
"""About 32,000 tokens; of a longer text an agent reads what it needs."""
BLOCK_BYTES: Final = 16 << 20
"""Of all files that one message has in it: in base64 that is two thirds of what the API takes in one request."""

NAME: Final = re.compile(r"[0-9a-f]{32}(\.[a-z0-9]{1,10})?")
"""What the store calls its files."""


class Upload(msgspec.Struct, frozen=True):
    """A file of the store. `name`, `mime` and `size` are as the person's browser told them, for people to see."""

    path: str
    name: str = ""
    mime: str = ""
    size: int | None = None


class StoredUploads(msgspec.Struct, frozen=True):
    """A file that goes with a message. `block`: what the agent is given; None: it may read the file by its path."""

    upload: Upload
    block: Content | None = None


class FileForm(msgspec.Struct, frozen=True):
    """A form whose `field` has files, at least one and at most so many; what else is in it is passed over."""

    field: str
    files: int = FILES
    file_bytes: int = FILE_BYTES


class AcceptForm(ServiceCall, frozen=True):
    """-> tuple of `Upload`, in the form's order: the body of this request, read now, kept wholly or not at all.
    BadRequest, TooLarge, TooMany, Unavailable. Only where the route says `form`."""

    form: FileForm


class OpenIntake(ServiceCall, frozen=True):
    """-> `Intake` for the files of one form. TooMany"""


class ClaimUploads(ServiceCall, frozen=True):
    """-> tuple of `Taken`: those of the given ones that are the user's own. Stale, if one of these is gone."""

    uploads: tuple[Upload, ...]


class ReadUpload(ServiceCall, frozen=True):
    """-> `Response` that a browser saves, or shows as a picture, and never runs. NotFound"""

    name: str


class Intake(Protocol):
    """Files on their way in, one after the other. Nothing is to be seen of them before `keep`. No call but that waits;
    each but `drop` may raise Unavailable."""

    def begin(self, name: str, mime: str) -> None: ...
    def write(self, data: bytes) -> None: ...
    async def keep(self) -> tuple[Upload, ...]: ...
    def drop(self) -> None:
        """Nothing is kept; after `keep` it does nothing."""
        ...


def own(folder: str, uploads: Sequence[Upload]) -> list[Upload]:
    """Those that are files directly in this folder, by their full paths or by their bare names; each once."""
    found: dict[str, Upload] = {}
    for upload in uploads:
        name = upload.path.removeprefix(f"{folder}/")
        if NAME.fullmatch(name):
            found.setdefault(name, msgspec.structs.replace(upload, path=f"{folder}/{name}"))
    return list(found.values())


def block_of(data: bytes, name: str) -> Content | None:
    """A file as a part of a message, by what is in it, whatever its name says; None for what cannot be one."""
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
    """Empty for what is no text, or too much of it."""
    if len(data) > TEXT_BYTES or b"\0" in data:
        return ""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return ""
