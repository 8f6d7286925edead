"""Reads the documents of the repository: their text, their code, their links and headings. Nothing is checked here."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)


def documents() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def code(text: str) -> Iterator[str]:
    """Every piece of code: fenced and indented blocks line by line, and spans."""
    for fenced in FENCE.findall(text):
        yield from fenced.splitlines()[1:-1]
    rest = FENCE.sub("", text)
    for line in rest.splitlines():
        if line.startswith("    "):
            yield line.strip()
        else:
            yield from SPAN.findall(line)


def links(text: str) -> list[str]:
    """The targets of links to other places in the repository."""
    targets = LINK.findall(FENCE.sub("", text))
    return [target for target in targets if not target.startswith(("http://", "https://", "mailto:"))]


def anchors(text: str) -> set[str]:
    """The anchors that a forge derives from headings: lower case, spaces to dashes, no punctuation."""
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        for heading in HEADING.findall(FENCE.sub("", text))
    }
