"""Every `fairlead` command and option that a document names exists: its help is asked for, in this process."""

import importlib
import importlib.util
import re
import sys
from collections.abc import Iterator

import pytest

from docs.documents import code, documents, name

COMMAND = re.compile(r"(?:^|\s)(?:\.venv/bin/)?fairlead((?: [a-z][a-z-]*)*)(.*)")
OPTION = re.compile(r"(?<=\s)--[a-z][a-z-]*")
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def named() -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """(document, words of the command, its options) for each command line in a document."""
    for path in documents():
        for piece in code(path.read_text()):
            if match := COMMAND.search(piece):
                # Only what is the command's own: a quoted prompt, a comment or a pipe ends it.
                rest = re.split(r'["#|]', match[2])[0]
                yield name(path), tuple(match[1].split()), tuple(OPTION.findall(rest))


def help_of(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    main = importlib.import_module("fairlead.cli.main").main
    monkeypatch.setattr(sys, "argv", ["fairlead", *words, "--help"])
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as ended:
        main()
    shown = capsys.readouterr()
    assert ended.value.code == 0, f"fairlead {' '.join(words)}: {shown.err}"
    return ANSI.sub("", shown.out)


def test_documents_name_commands() -> None:
    assert ("run",) in {words for _, words, _ in named()}


@pytest.mark.parametrize(("words", "where"), sorted({(words, where) for where, words, _ in named()}))
def test_every_command_named_exists_with_its_options(
    words: tuple[str, ...],
    where: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if importlib.util.find_spec("fairlead.cli") is None:
        return
    shown = help_of(words, monkeypatch, capsys)
    options = {option for place, other, options in named() if (place, other) == (where, words) for option in options}
    assert [option for option in sorted(options) if option not in shown] == [], f"{where}: fairlead {' '.join(words)}"
