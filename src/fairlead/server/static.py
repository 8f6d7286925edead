"""A folder of static files on a door: a third-party front end, readable by every client that reaches the port or, with
HTTP Basic, signs in there.

Rule: nothing outside the folder is ever served, whatever a path or a link says, and nothing whose name begins with a
dot; there are no listings. If a browser opens a page that is not a file, the response is `index.html`, as single-page
applications expect.
"""

import asyncio
import os
import stat
from pathlib import Path
from typing import BinaryIO, Final, Literal

from fairlead.model.errors import NotFound
from fairlead.model.web.requests import Response, ServiceCall, ServiceHandlers, do
from fairlead.model.web.routes import ClientProtocol, FileStream, Request, Route, Steps
from fairlead.system.regular_files import open_regular

PIECE: Final = 64 << 10
"""Bytes of a file that are read at once. A larger file is never completely in memory, however many clients read it."""
INDEX: Final = "index.html"

TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".webmanifest": "application/manifest+json",
    ".xml": "application/xml",
    ".wasm": "application/wasm",
    ".pdf": "application/pdf",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".avif": "image/avif",
    ".ico": "image/x-icon",
    ".woff": "font/woff",
    ".woff2": "font/woff2",
    ".ttf": "font/ttf",
    ".otf": "font/otf",
    ".mp3": "audio/mpeg",
    ".ogg": "audio/ogg",
    ".wav": "audio/wav",
    ".mp4": "video/mp4",
    ".webm": "video/webm",
}
"""Our own list: the system's list differs from machine to machine."""

# A third-party front end may use its own scripts and styles, inline ones too, and nothing from elsewhere.
_POLICY: Final = (
    "default-src 'self' data: blob:; script-src 'self' 'unsafe-inline' 'wasm-unsafe-eval' blob:;"
    " style-src 'self' 'unsafe-inline'; connect-src 'self'; object-src 'none'; base-uri 'self'; form-action 'self';"
    " frame-ancestors 'none'"
)


class ReadStatic(ServiceCall["Response | FileStream"], frozen=True):
    """-> `Response` or `FileStream`. `page`: a browser requests a page, not a part of one. `known`: its ETags."""

    path: str
    known: str = ""
    page: bool = False


class StaticFiles:
    def __init__(self, folder: Path, policy: str = _POLICY) -> None:
        self._folder = Path(os.path.realpath(folder))
        self._policy = policy

    def protocol(self, access: Literal["public", "any"] = "public") -> ClientProtocol:
        route = Route(
            method="GET", path="/{path...}", access=access, name="static", handle=_static, body_limit=0, page=True
        )
        return ClientProtocol(name="static files", routes=(route,))

    def handlers(self) -> ServiceHandlers:
        return {ReadStatic: lambda who, action: asyncio.to_thread(self.read, action)}

    def read(self, wanted: ReadStatic) -> Response | FileStream:
        file = self._find(wanted)
        try:
            opened = open_regular(file)
        except OSError:
            # Not readable for us, or changed since it was found.
            raise NotFound("file", f"/{wanted.path}") from None
        about = os.fstat(opened.fileno())
        tag = f'"{about.st_mtime_ns:x}-{about.st_size:x}"'
        headers = (("etag", tag), ("cache-control", "no-cache"), ("content-security-policy", self._policy))
        kind = TYPES.get(file.suffix.lower(), "application/octet-stream")
        if tag in (known.strip().removeprefix("W/") for known in wanted.known.split(",")):
            opened.close()
            return Response(status=304, content_type=kind, headers=headers)
        return file_answer(opened, kind, headers)

    def _find(self, wanted: ReadStatic) -> Path:
        path = f"{wanted.path}{INDEX}" if not wanted.path or wanted.path.endswith("/") else wanted.path
        found = self._inside(path)
        if found is None and wanted.page and "." not in path.removesuffix(f"/{INDEX}").rpartition("/")[2]:
            found = self._inside(INDEX)
        if found is None:
            raise NotFound("file", f"/{wanted.path}")
        return found

    def _inside(self, path: str) -> Path | None:
        """Return the file with links resolved, or None unless it is a regular file below the folder and no part of its
        path begins with a dot."""
        if "\0" in path or any(part.startswith(".") or not part for part in path.split("/")):
            return None
        try:
            real = Path(os.path.realpath(self._folder / path, strict=True))
            below = real.relative_to(self._folder)
            plain = stat.S_ISREG(real.stat().st_mode)
        except (OSError, ValueError):
            return None
        return real if plain and not any(part.startswith(".") for part in below.parts) else None


def file_answer(opened: BinaryIO, kind: str, headers: tuple[tuple[str, str], ...]) -> Response | FileStream:
    """Return a small file as a complete response, a large one as a stream."""
    size = os.fstat(opened.fileno()).st_size
    if size > PIECE:
        return FileStream(file=opened, size=size, content_type=kind, headers=headers)
    with opened:
        return Response(body=opened.read(PIECE), content_type=kind, headers=headers)


def _static(request: Request) -> Steps:
    page = "text/html" in request.head.first("accept")
    return (yield from do(ReadStatic(request.params["path"], request.head.first("if-none-match"), page)))
