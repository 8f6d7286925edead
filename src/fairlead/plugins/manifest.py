"""Reads and checks a plugin's manifest.json, and derives the argument list to run. Pure.

    {"name": "board", "displayName": "Board", "entry": "index.js", "server": "server.py"}

`server` is a file of the plugin's folder, run by the interpreter for its suffix, or a list of arguments.
"""

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Final

import msgspec

from fairlead.model.errors import BadRequest
from fairlead.model.web.routes import read_json

FILE: Final = "manifest.json"
LARGEST: Final = 64 << 10
"""Maximum bytes of a manifest; those of published plugins have less than one thousand."""
NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")

_Text = Annotated[str, msgspec.Meta(max_length=1000)]


class Manifest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Unknown fields are ignored: other plugin hosts define more."""

    name: _Text
    display_name: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    entry: _Text
    server: Annotated[str, msgspec.Meta(min_length=1)] | tuple[str, ...] | None = None
    version: _Text = ""
    description: _Text = ""
    author: _Text = ""
    icon: _Text = ""
    type: _Text = "module"
    slot: _Text = "tab"

    @property
    def script(self) -> str:
        """The file of the folder to run; empty without a server, or if `server` is a list of arguments."""
        return self.server if isinstance(self.server, str) else ""

    def argv(self, programs: Mapping[str, str]) -> tuple[str, ...]:
        """The command line, run in the plugin's folder; empty without a server. `programs`: the interpreter for each
        file suffix."""
        if self.server is None or isinstance(self.server, tuple):
            return self.server or ()
        program = programs.get(PurePosixPath(self.server).suffix)
        return (f"./{self.server}",) if program is None else (program, self.server)


def read_manifest(data: bytes) -> Manifest:
    """Parse and check a manifest. Raises BadRequest with the reason."""
    manifest = read_json(data, Manifest, FILE)
    if not NAME.fullmatch(manifest.name):
        raise BadRequest(f"{FILE}: a name has up to 64 letters, digits, dashes and underscores.", field="name")
    for field, path in (("entry", manifest.entry), ("server", manifest.script), ("icon", manifest.icon)):
        if path and not is_below(path):
            raise BadRequest(f"{FILE}: {field} must be a file of the plugin's folder, not {path[:80]!r}.", field=field)
    if not manifest.entry:
        raise BadRequest(f"{FILE}: entry must name the page's file.", field="entry")
    arguments = (manifest.server or ("",)) if isinstance(manifest.server, tuple) else ()
    if any(not argument or "\0" in argument for argument in arguments):
        raise BadRequest(f"{FILE}: server must be a file or a list of arguments, none of them empty.", field="server")
    return manifest


def is_below(path: str) -> bool:
    """Whether this is a relative path that stays below its folder."""
    return "\0" not in path and "\\" not in path and all(part not in ("", ".", "..") for part in path.split("/"))
