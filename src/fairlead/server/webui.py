"""The web UI as files: the app shell, its hashed assets, the manifest and the service worker, all public.

Rule: only files that the build created are served, each from one flat folder, and the response never depends on the
caller. The shell is the same for every page of the UI (`/`, `/app/...`): the browser knows which page it is. If the UI
was not built, the shell is a page with that information.
"""

import asyncio
import gzip
import re
from pathlib import Path
from typing import BinaryIO, Final

import fairlead
from fairlead.model.errors import NotFound
from fairlead.model.web.requests import Response, ServiceCall, ServiceHandlers, do
from fairlead.model.web.routes import ClientProtocol, FileStream, Request, Route, Steps
from fairlead.server.static import TYPES, file_answer
from fairlead.system.regular_files import open_regular

BUILT: Final = Path(fairlead.__file__).parent / "web_dist"
"""The folder that the build writes (web/vite.config.ts), and that the wheel contains."""

WORKER: Final = "sw.js"
FILES: Final = (WORKER, "manifest.webmanifest", "icon.svg", "icon-192.png", "icon-512.png")
"""Files that browsers request at the root under these names; all others have a hash in their name, below /assets."""

_ASSET: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,120}")

# No inline script or style, nothing from elsewhere, and text becomes HTML only through one of our Trusted Types
# policies. Styles that the scripts set through the CSSOM are not inline; images in messages are data: and blob:.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self';"
    " connect-src 'self'; manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types fairlead dompurify 'allow-duplicates'"
)
_WORKER_POLICY: Final = "default-src 'none'; connect-src 'self'"
_PACKABLE: Final = frozenset({".js", ".css", ".svg", ".json"})
_FOR_EVER: Final = "public, max-age=31536000, immutable"
_NOT_BUILT: Final = b"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Fairlead</title>
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="color-scheme" content="light dark"></head>
<body><h1>Fairlead is running, without its web UI</h1>
<p>The UI was not built for this installation. In a clone: install Node.js with npm, then <code>make serve</code>. All
other clients work as they are; <code>fairlead --help</code> lists the commands.</p></body></html>
"""


class ReadAsset(ServiceCall["Response | FileStream"], frozen=True):
    """-> `Response` or `FileStream`. `name` is a file of the build, or empty for the shell. `packed`: the browser
    accepts gzip."""

    name: str = ""
    packed: bool = False


class WebUi:
    def __init__(self, folder: Path = BUILT) -> None:
        self._folder = folder
        self._packed: dict[str, bytes] = {}
        """Compressed assets, compressed once: the bytes behind a name with a hash never change."""

    def protocol(self) -> ClientProtocol:
        paths = {"/": _page, "/app": _page, "/app/{path...}": _page, "/assets/{name}": _asset}
        paths |= {f"/{name}": _root_file for name in FILES}
        routes = tuple(
            Route(method="GET", path=path, access="public", name=f"web {path}", handle=handle, body_limit=0)
            for path, handle in paths.items()
        )
        return ClientProtocol(name="web UI", routes=routes)

    def handlers(self) -> ServiceHandlers:
        return {ReadAsset: lambda who, action: asyncio.to_thread(self.read, action)}

    def read(self, wanted: ReadAsset) -> Response | FileStream:
        if not wanted.name:
            return self._shell()
        try:
            opened = open_regular(self._folder / wanted.name)
        except OSError:
            raise NotFound("file", f"/{wanted.name}") from None
        lasting = wanted.name.startswith("assets/")
        headers = [("cache-control", _FOR_EVER if lasting else "no-cache")]
        if wanted.name == WORKER:
            # A worker's policy comes with its own script, not with the page.
            headers.append(("content-security-policy", _WORKER_POLICY))
        kind = TYPES.get(Path(wanted.name).suffix, "application/octet-stream")
        if lasting and Path(wanted.name).suffix in _PACKABLE:
            headers.append(("vary", "accept-encoding"))
            if wanted.packed:
                headers.append(("content-encoding", "gzip"))
                return Response(body=self._pack(wanted.name, opened), content_type=kind, headers=tuple(headers))
        return file_answer(opened, kind, tuple(headers))

    def _pack(self, name: str, opened: BinaryIO) -> bytes:
        with opened:
            if name not in self._packed:
                self._packed[name] = gzip.compress(opened.read(), mtime=0)
        return self._packed[name]

    def _shell(self) -> Response:
        headers = (("content-security-policy", POLICY), ("cache-control", "no-cache"))
        try:
            body = (self._folder / "index.html").read_bytes()
        except OSError:
            body = _NOT_BUILT
        return Response(body=body, content_type=TYPES[".html"], headers=headers)


def _page(request: Request) -> Steps:
    return (yield from do(ReadAsset()))


def _root_file(request: Request) -> Steps:
    return (yield from do(ReadAsset(request.head.path.removeprefix("/"))))


def _asset(request: Request) -> Steps:
    name = request.params["name"]
    if _ASSET.fullmatch(name) is None:
        raise NotFound("file", f"/assets/{name[:80]}")
    return (yield from do(ReadAsset(f"assets/{name}", packed="gzip" in request.head.first("accept-encoding"))))
