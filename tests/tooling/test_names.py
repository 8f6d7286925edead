"""Names and first sentences use the words of docs/explanation/glossary.md, and one word means one thing."""

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.rules import ROOT

SOURCE = ROOT / "src" / "fairlead"

PRIVATE_WORDS = (
    *("told", "said", "hall", "desk", "furniture", "surroundings", "beside", "letters", "anew"),
    *("somebody", "nobody", "whoever"),
)
"""Words that the project once used in a sense of its own."""

_IN_NAMES = re.compile(rf"(?:^|_)(?:{'|'.join(PRIVATE_WORDS)})s?(?:_|$)", re.IGNORECASE)
_IN_SENTENCES = re.compile(rf"\b(?:(?i:{'|'.join(PRIVATE_WORDS)})|is none)\b")


def names_defined(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name, node.lineno
            case ast.arg():
                yield node.arg, node.lineno
            case ast.Name(ctx=ast.Store()):
                yield node.id, node.lineno
            case ast.Attribute(ctx=ast.Store()):
                yield node.attr, node.lineno


def in_snake_case(name: str) -> str:
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name)


def first_lines(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield (ast.get_docstring(node) or "").partition("\n")[0]


@dataclass(frozen=True)
class Source:
    """What the tests compare of one file: its tree is large, and is not kept."""

    path: Path
    names: list[tuple[str, int]]
    first_lines: list[str]
    public_classes: list[str]


@functools.cache
def sources() -> list[Source]:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
        found.append(Source(path, list(names_defined(tree)), list(first_lines(tree)), classes))
    return found


def test_the_checks_find_what_they_look_for() -> None:
    for name in ("told", "_desk_of", "HallCodec"):
        assert _IN_NAMES.search(in_snake_case(name))
    assert not _IN_NAMES.search("untold")
    assert _IN_SENTENCES.search("Nobody knows.")
    assert _IN_SENTENCES.search("A zombie is none.")
    assert not _IN_SENTENCES.search("There is no network.")


def test_no_identifier_has_a_private_word() -> None:
    found = [
        f"{source.path.relative_to(ROOT)}:{line}: {name}"
        for source in sources()
        for name, line in source.names
        if _IN_NAMES.search(in_snake_case(name))
    ]
    assert found == []


def test_no_docstring_begins_with_a_private_word() -> None:
    found = [
        f"{source.path.relative_to(ROOT)}: {line}"
        for source in sources()
        for line in source.first_lines
        if _IN_SENTENCES.search(line)
    ]
    assert found == []


def test_no_public_class_name_is_in_two_packages() -> None:
    """Client packages may share one: they count as one package here."""
    packages: defaultdict[str, set[str]] = defaultdict(set)
    for source in sources():
        for name in source.public_classes:
            packages[name].add(source.path.relative_to(SOURCE).parts[0])
    assert {name: places for name, places in packages.items() if len(places) > 1} == {}


def test_the_core_names_no_agent() -> None:
    """What one agent has (its tools, files, error texts) stands in its folder under `agents/`."""
    agents = re.compile("claude|AskUserQuestion|ExitPlanMode|rewind_files|No conversation found", re.IGNORECASE)
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for package in ("model", "sessions", "server", "terminals", "stores")
        for path in sorted((SOURCE / package).rglob("*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if agents.search(line)
    ]
    assert found == []
