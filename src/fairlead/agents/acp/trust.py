"""The files with which a project configures ACP agents: what they ask for, which programs they start."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fairlead.agents.folder_files import describe_files, is_file, walk
from fairlead.sessions.api.folders import FolderReport

PROJECT_SETTINGS: Final = (".gemini", ".codex", ".opencode", "opencode.json", "opencode.jsonc", ".goose", ".qwen")


def project_settings(cwd: str) -> str:
    """The first such file in a folder or above it, up to the root of its repository, or an empty string."""
    return next((str(place / name) for place in _places(Path(cwd)) for name in _present(place)), "")


def describe(folder: str) -> FolderReport:
    root = Path(os.path.realpath(folder))
    return describe_files(root, _files(root), lambda name, _: [("other", name)])


def _files(root: Path) -> Iterator[tuple[str, Path]]:
    for place in _places(root):
        prefix = "" if place == root else f"{os.path.relpath(place, root)}/"
        for name in _present(place):
            if is_file(place / name):
                yield prefix + name, place / name
            yield from ((prefix + inner, path) for inner, path in walk(place, name))


def _places(folder: Path) -> list[Path]:
    places = [folder, *folder.parents]
    roots = [place for place in places if (place / ".git").exists()]
    return places[: places.index(roots[0]) + 1] if roots else places[:1]


def _present(place: Path) -> list[str]:
    return [name for name in PROJECT_SETTINGS if (place / name).exists()]
