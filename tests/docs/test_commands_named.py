"""Every `fairlead` command and option that a document names exists: its help is printed, in this process."""

import functools
import importlib
import importlib.util
import io
import re
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout

import pytest

from docs.documents import code, documents, name

COMMAND = re.compile(r"(?:^|\s)(?:\.venv/bin/)?fairlead((?: [a-z][a-z-]*)*)(.*)")
OPTION = re.compile(r"(?<=\s)--[a-z][a-z-]*")
ANSI = re.compile(r"\x1b\[[0-9;]*m")


@functools.cache
def named() -> tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]:
    """(document, words of the command, its options) for each command line in a document."""
    return tuple(read())


def read() -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    for path in documents():
        for piece in code(path.read_text()):
            # After a lone `--`, the line of another program has our command: `claude mcp add fairlead -- fairlead mcp`.
            if match := COMMAND.search(piece.rpartition(" -- ")[2]):
                # Only the command's own words: a quoted prompt, a comment or a pipe ends it.
                rest = re.split(r'["#|]', match[2])[0]
                yield name(path), tuple(match[1].split()), tuple(OPTION.findall(rest))


PASSES_ALL = ("claude",)
"""The command whose every argument, --help too, is for another program: calling it would replace this process."""


@functools.cache
def help_of(words: tuple[str, ...]) -> str:
    main = importlib.import_module("fairlead.cli.main").main
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["fairlead", *words, "--help"])
        patch.setenv("COLUMNS", "200")
        with pytest.raises(SystemExit) as ended:
            main()
    assert ended.value.code == 0, f"fairlead {' '.join(words)}: {err.getvalue()}"
    return ANSI.sub("", out.getvalue())


def test_documents_name_commands() -> None:
    assert ("run",) in {words for _, words, _ in named()}


@pytest.mark.parametrize(("words", "where"), sorted({(words, where) for where, words, _ in named()}))
def test_every_command_named_exists_with_its_options(words: tuple[str, ...], where: str) -> None:
    if importlib.util.find_spec("fairlead.cli") is None or words == PASSES_ALL:
        return
    shown = help_of(words)
    options = {option for place, other, options in named() if (place, other) == (where, words) for option in options}
    assert [option for option in sorted(options) if option not in shown] == [], f"{where}: fairlead {' '.join(words)}"
