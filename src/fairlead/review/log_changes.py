"""The changes of a folder without a repository: those that the edit tools in the session's log report. Pure.

They are what the agent asked for, not what is on the disk: what a shell command changed is not among them.
"""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from fairlead.model import events as ev
from fairlead.model.tools import EditArguments, Tool, ToolCatalogue
from fairlead.review.api import ChangedFile
from fairlead.review.formats import LINE_CHARACTERS, DiffRow, file_key

KINDS: Final = ("tool.called", "tool.ended")
COMPARED_LINES: Final = 3000
"""Above this number of lines the old text is shown as removed and the new one as added."""


class LoggedEdit(msgspec.Struct, frozen=True):
    """A call that replaced text in a file. `whole`: `new` is the whole text of the file."""

    path: str
    turn: str
    replacements: tuple[tuple[str, str], ...]
    whole: bool = False


def logged_edits(events: Iterable[ev.Event], tools: ToolCatalogue) -> list[LoggedEdit]:
    """The edits of a log that did not fail, in its order."""
    called: dict[str, LoggedEdit] = {}
    done: list[LoggedEdit] = []
    for event in events:
        if isinstance(event, ev.ToolCalled):
            tool = tools.find(event.name)
            path = event.input.get(tool.argument) if tool.effect == "edit" else None
            if isinstance(path, str) and path:
                called[event.call] = LoggedEdit(path, str(event.turn or ""), *_replacements(tool, event.input))
        elif isinstance(event, ev.ToolEnded):
            edit = called.pop(event.call, None)
            if edit is not None and not event.is_error and event.status == "done":
                done.append(edit)
    return done


def edited_files(edits: Iterable[LoggedEdit]) -> list[ChangedFile]:
    """One entry per file, by path."""
    rows: dict[str, list[DiffRow]] = {}
    for edit in edits:
        rows.setdefault(edit.path, []).extend(edit_rows([edit]))
    return [
        ChangedFile(
            key=file_key(path.encode()),
            path=path,
            status="modified",
            added=sum(row.sign == "+" for row in found),
            removed=sum(row.sign == "-" for row in found),
        )
        for path, found in sorted(rows.items())
    ]


def edit_rows(edits: Iterable[LoggedEdit]) -> list[DiffRow]:
    """The rows of the edits of one file, one hunk for each replacement. Line numbers are within the replaced text."""
    found: list[DiffRow] = []
    for edit in edits:
        for old, new in edit.replacements:
            heading = "The whole file was written" if edit.whole else "Text was replaced"
            found.append(DiffRow("@", 1, 1, heading))
            found.extend(_compared(old.splitlines(), new.splitlines()))
    return found


def _replacements(tool: Tool, given: Mapping[str, Any]) -> tuple[tuple[tuple[str, str], ...], bool]:
    how: EditArguments = tool.edit
    if how.whole:
        return (("", _text(given.get(how.whole))),), True
    several = given.get(how.several) if how.several else [given]
    entries = [one for one in (several if isinstance(several, list) else []) if isinstance(one, Mapping)]
    return tuple((_text(one.get(how.old)), _text(one.get(how.new))) for one in entries), False


def _compared(old: list[str], new: list[str]) -> Iterable[DiffRow]:
    if len(old) + len(new) > COMPARED_LINES or not old or not new:
        yield from (DiffRow("-", number, 0, _cut(line)) for number, line in enumerate(old, 1))
        yield from (DiffRow("+", 0, number, _cut(line)) for number, line in enumerate(new, 1))
        return
    matcher = difflib.SequenceMatcher(a=old, b=new, autojunk=False)
    for tag, old_from, old_to, new_from, new_to in matcher.get_opcodes():
        if tag == "equal":
            for place in range(old_to - old_from):
                yield DiffRow(" ", old_from + place + 1, new_from + place + 1, _cut(old[old_from + place]))
            continue
        yield from (DiffRow("-", place + 1, 0, _cut(old[place])) for place in range(old_from, old_to))
        yield from (DiffRow("+", 0, place + 1, _cut(new[place])) for place in range(new_from, new_to))


def _cut(line: str) -> str:
    return line if len(line) <= LINE_CHARACTERS else f"{line[:LINE_CHARACTERS]} …"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
