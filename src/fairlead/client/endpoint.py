"""Location of the gateway: from its URL, else from the file that the server process writes into the data folder."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated
from urllib.parse import quote, urlsplit

import msgspec

from fairlead import config
from fairlead.auth.origins import is_loopback
from fairlead.client.errors import Denied, Unreachable, UsageError
from fairlead.system.proctable import start_mark

SERVER_FILE = "server.json"
TOKEN_FILE = "admin-token"


class GatewayEndpoint(msgspec.Struct, frozen=True):
    """A gateway's address and token. `own`: the gateway that serves this data folder, on this machine."""

    url: str
    token: str
    own: bool = False

    @property
    def local(self) -> bool:
        return is_on_loopback(self.url)


Locate = Callable[[], GatewayEndpoint]
"""Returns the gateway's present address. Raises ClientError."""


class ServerFile(msgspec.Struct, frozen=True):
    """The file that the server process writes into the data folder. `started` is the start mark of the process
    (`proctable.start_mark`). `alone`: the process is nothing but the gateway."""

    url: str
    pid: Annotated[int, msgspec.Meta(gt=0)]
    started: str = ""
    alone: bool = False


class EndpointOptions(msgspec.Struct, frozen=True):
    """The options that locate the gateway; they are resolved again at every reconnect, since ports may change."""

    url: str | None = None
    token: str | None = None
    data: str | None = None

    def find(self, env: Mapping[str, str] = os.environ) -> GatewayEndpoint:
        """Return the endpoint. Raises UsageError, Unreachable (no gateway runs here), Denied (no token)."""
        if self.url:
            url = checked_url(self.url)
            return GatewayEndpoint(url, self.token or self._kept_token(url, env))
        folder = self.folder(env)
        server = read_server_file(folder)
        if server is None:
            raise Unreachable(
                f"No gateway runs on {folder}. Start one with: fairlead serve\n"
                "Name another gateway with --url or FAIRLEAD_URL, or its data folder with --data."
            )
        return GatewayEndpoint(server.url.rstrip("/"), self.token or token_of(folder), own=True)

    def folder(self, env: Mapping[str, str] = os.environ) -> Path:
        """Return the data folder. Raises UsageError if a setting is wrong."""
        return Path(config.load(env, {"data": self.data}).config.data)

    def _kept_token(self, url: str, env: Mapping[str, str]) -> str:
        """Return the token of the data folder. It is sent only to this machine, to the gateway of that folder, or if
        --data names the folder. Raises Denied otherwise."""
        folder = self.folder(env)
        server = read_server_file(folder)
        own = server is not None and server.url.rstrip("/") == url
        if self.data or own or is_on_loopback(url):
            return token_of(folder)
        raise Denied(f"{url} needs a token: give it with FAIRLEAD_TOKEN or --token.")


def checked_url(text: str) -> str:
    """Return the address of a gateway without query and fragment. Raises UsageError if it is not valid."""
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or any(c.isspace() for c in text):
        raise UsageError(f"--url {text[:80]!r} is not an address: http://127.0.0.1:7433 is one.")
    return text.split("#")[0].split("?")[0].rstrip("/")


def is_on_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host == "localhost" or is_loopback(host)


def segment(text: str) -> str:
    """Quote an id from another program as one segment of a path."""
    return quote(text, safe="")


def read_server_file(folder: Path) -> ServerFile | None:
    """Read the server file. None: no gateway serves this folder (or the file cannot be read).

    A gateway that was killed leaves its file: another program may use its port by now, and must not get the token."""
    try:
        server = msgspec.json.decode((folder / SERVER_FILE).read_bytes(), type=ServerFile)
    except (OSError, msgspec.DecodeError):
        return None
    return server if _alive(server.pid) and not _is_another(server) else None


def _is_another(server: ServerFile) -> bool:
    """Whether the process id belongs to another process by now, if that can be seen."""
    if not server.started:
        return False
    mark = start_mark(server.pid)
    return bool(mark) and mark != server.started


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass  # a process of another user, or an impossible process id: the attempt to connect will show
    return True


def token_of(folder: Path) -> str:
    """Return the token in a data folder. Raises Denied if this user cannot read one."""
    try:
        token = (folder / TOKEN_FILE).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        token = ""
    if not token:
        raise Denied(
            f"{folder / TOKEN_FILE} has no token that you may read. "
            "Give the gateway's token with FAIRLEAD_TOKEN or --token."
        )
    return token
