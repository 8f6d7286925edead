"""Where the gateway is: by `--url`, else by the file that a serving process leaves in the data folder."""

import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import msgspec

from fairlead import config
from fairlead.cli.errors import Denied, Unreachable, UsageError

SERVER_FILE = "server.json"
TOKEN_FILE = "admin-token"


class Endpoint(msgspec.Struct, frozen=True):
    """A gateway's address and what opens it. `own`: it is the one that serves this data folder, on this machine."""

    url: str
    token: str
    own: bool = False

    @property
    def local(self) -> bool:
        return is_loopback(self.url)


class ServerFile(msgspec.Struct, frozen=True):
    """What the serving process leaves in the data folder."""

    url: str
    pid: Annotated[int, msgspec.Meta(gt=0)]


class EndpointOptions(msgspec.Struct, frozen=True):
    """What the command line said about the gateway; looked up again at every reconnect, since ports may change."""

    url: str | None = None
    token: str | None = None
    data: str | None = None

    def find(self, env: Mapping[str, str] | None = None) -> Endpoint:
        """Usage, Unreachable (nobody serves here), Denied (no token)."""
        env = os.environ if env is None else env
        if self.url:
            url = checked_url(self.url)
            return Endpoint(url, self.token or self._kept_token(url, env))
        folder = self.folder(env)
        server = read_server_file(folder)
        if server is None:
            raise Unreachable(
                f"No gateway runs on {folder}. Start one with: fairlead serve\n"
                "For one elsewhere, name it with --url or FAIRLEAD_URL, or its data folder with --data."
            )
        return Endpoint(server.url.rstrip("/"), self.token or token_of(folder), own=True)

    def folder(self, env: Mapping[str, str] | None = None) -> Path:
        """The data folder. Usage, if a setting is wrong."""
        env = os.environ if env is None else env
        return Path(config.load(env, {"data": self.data}).config.data)

    def _kept_token(self, url: str, env: Mapping[str, str]) -> str:
        """The data folder's own token goes to this machine, to its own gateway, or where --data says: nowhere else."""
        folder = self.folder(env)
        server = read_server_file(folder)
        own = server is not None and server.url.rstrip("/") == url
        if self.data or own or is_loopback(url):
            return token_of(folder)
        raise Denied(f"Which token does {url} take? Give it with FAIRLEAD_TOKEN or --token.")


def checked_url(text: str) -> str:
    """Usage unless it is an address of a gateway."""
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or any(c.isspace() for c in text):
        raise UsageError(f"--url {text[:80]!r} is not an address: http://127.0.0.1:7433 is one.")
    return text.split("#")[0].split("?")[0].rstrip("/")


def is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_server_file(folder: Path) -> ServerFile | None:
    """None: nobody serves on this folder (or it cannot be read).

    A gateway that was killed leaves its file: another program may have its port by now, and must not get the token."""
    try:
        server = msgspec.json.decode((folder / SERVER_FILE).read_bytes(), type=ServerFile)
    except (OSError, msgspec.DecodeError):
        return None
    return server if _alive(server.pid) else None


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        # Somebody else's process, or a number that no process has: connecting will tell.
        return True
    return True


def token_of(folder: Path) -> str:
    """Denied, if there is none that this user may read."""
    try:
        token = (folder / TOKEN_FILE).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        token = ""
    if not token:
        raise Denied(
            f"There is no token in {folder / TOKEN_FILE} that you may read. "
            "Give the gateway's with FAIRLEAD_TOKEN or --token."
        )
    return token
