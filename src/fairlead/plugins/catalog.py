"""The plugins in the folder of plugins, as currently on the disk, with a digest of each.

The digest covers the manifest and the files that it names, so that a changed plugin needs a person's approval again.
"""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from fairlead.model.errors import BadRequest, FairleadError
from fairlead.plugins.manifest import FILE, LARGEST, NAME, Manifest, read_manifest

MOST: Final = 100
"""Maximum number of plugins in a folder; more are a mistake (the setting names a folder with other content)."""
LARGEST_FILE: Final = 32 << 20
"""Maximum bytes of a server's or a page's main file: it is read whole for the digest."""


class PluginFiles(msgspec.Struct, frozen=True, kw_only=True):
    """A folder with a manifest. If the manifest is unusable, `problem` has the reason, and `name` is the folder's."""

    name: str
    folder: str
    manifest: Manifest | None = None
    argv: tuple[str, ...] = ()
    digest: str = ""
    problem: str = ""


def scan(folder: Path, programs: Mapping[str, str]) -> dict[str, PluginFiles]:
    """The plugins by name; empty if the folder does not exist."""
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith("."))
    except OSError:
        return {}
    found: dict[str, PluginFiles] = {}
    for name in names[:MOST]:
        real = Path(os.path.realpath(folder / name))
        if not (real / FILE).is_file():
            continue
        one = _look(name, real, programs)
        if one.name in found:
            problem = f"There is a plugin {one.name} already, in {found[one.name].folder}."
            one = PluginFiles(name=name, folder=str(real), problem=problem)
        found.setdefault(one.name, one)
    return found


def _look(name: str, folder: Path, programs: Mapping[str, str]) -> PluginFiles:
    try:
        data = _read(folder, FILE, LARGEST)
        manifest = read_manifest(data)
        digest = hashlib.sha256(_measured(data))
        for path in (manifest.entry, manifest.script):
            digest.update(_measured(_read(folder, path, LARGEST_FILE) if path else b""))
    except FairleadError as error:
        # The manifest gives no usable name; the folder's name is used if it is a valid one.
        return PluginFiles(name=name if NAME.fullmatch(name) else "-", folder=str(folder), problem=error.message)
    argv = manifest.argv(programs)
    return PluginFiles(name=manifest.name, folder=str(folder), manifest=manifest, argv=argv, digest=digest.hexdigest())


def _read(folder: Path, path: str, most: int) -> bytes:
    real = Path(os.path.realpath(folder / path))
    if not real.is_relative_to(folder):
        raise BadRequest(f"{path} leads out of the plugin's folder.", path=path)
    try:
        with real.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise BadRequest(f"{path} cannot be read: {error.strerror}.", path=path) from None
    if len(data) > most:
        raise BadRequest(f"{path} has more than {most} bytes.", path=path)
    return data


def _measured(data: bytes) -> bytes:
    """Prefix the data with its length, so that no two lists of files have the same digest."""
    return len(data).to_bytes(8, "big") + data
