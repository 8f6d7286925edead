"""Tests of the documents: the commands that they name exist, and so do the targets of their links."""

import re
import tomllib
from pathlib import Path

import pytest

from docs.documents import ROOT, anchors, code, documents, links, name

MAKE_TARGET = re.compile(r"\bmake ([a-z][a-z-]*)")
RULE = re.compile(r"^([a-z][a-z-]*):", re.MULTILINE)
# A leading assignment such as FAIRLEAD_SEED=1 may precede a program; a path that ends in /name is one, too.
TOOL = re.compile(r"(?:^|\s)((?:tools|\.ci)/[\w.-]+)")

every_document = pytest.mark.parametrize("path", documents(), ids=name)


@every_document
def test_every_relative_link_leads_somewhere(path: Path) -> None:
    for link in links(path.read_text()):
        target, _, anchor = link.partition("#")
        file = (path.parent / target).resolve() if target else path
        assert file.exists(), f"{name(path)} links to {link}"
        if anchor:
            assert anchor in anchors(file.read_text()), f"{name(path)} links to {link}"


@every_document
def test_every_make_target_named_exists(path: Path) -> None:
    targets = set(RULE.findall((ROOT / "Makefile").read_text()))
    named = {target for piece in code(path.read_text()) for target in MAKE_TARGET.findall(piece)}
    assert named <= targets


@every_document
def test_every_script_named_exists(path: Path) -> None:
    named = {tool for piece in code(path.read_text()) for tool in TOOL.findall(piece)}
    assert [tool for tool in named if not (ROOT / tool).exists()] == []


def test_every_make_target_is_explained_by_make_help() -> None:
    makefile = (ROOT / "Makefile").read_text()
    explained = set(re.findall(r"^([a-z][a-z-]*):.*## ", makefile, re.MULTILINE))
    assert set(RULE.findall(makefile)) == explained


def test_every_document_is_reached_from_the_readme() -> None:
    seen: set[Path] = set()
    open_ends = [ROOT / "README.md"]
    while open_ends:
        path = open_ends.pop()
        if path in seen or path.suffix != ".md":
            continue
        seen.add(path)
        targets = (link.partition("#")[0] for link in links(path.read_text()))
        open_ends += [(path.parent / target).resolve() for target in targets if target]
    lost = [name(path) for path in documents() if path not in seen and path.name != "README.md"]
    assert lost == []


def test_every_direct_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    packages = [re.split(r"[^\w-]", requirement)[0] for requirement in needed]
    reasons = (ROOT / "docs/explanation/dependencies.md").read_text()
    assert "starlette" in packages
    assert [package for package in packages if not re.search(rf"\b{package}\b", reasons)] == []
