"""Output: results go to stdout, messages about the work to stderr. Colour on a terminal only.

Rich is imported when it is needed: every command imports this module.
"""

import json
import os
import sys
import time
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any

import msgspec

from fairlead.cli.sanitize import clean

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn


LAST_COLUMN = 24
"""Room that the last column of a table has at least, where spare columns can be left out for it."""


def console(*, no_color: bool = False, err: bool = False, file: IO[str] | None = None) -> "Console":
    """Return a console that never interprets markup, and respects NO_COLOR and a missing terminal."""
    from rich.console import Console

    target = file or (sys.stderr if err else sys.stdout)
    no_color = no_color or bool(os.environ.get("NO_COLOR"))
    terminal = target.isatty()
    return Console(
        file=target,
        markup=False,
        emoji=False,
        highlight=False,
        soft_wrap=True,
        no_color=no_color,
        force_terminal=terminal and not no_color,
        color_system="auto" if terminal and not no_color else None,
    )


def print_text(text: str, *, style: str = "", no_color: bool = False) -> None:
    from rich.text import Text

    console(no_color=no_color).print(Text(clean(text), style=style))


def hint(text: str) -> None:
    """Print a message for a person to stderr, so that it never mixes with output that a script reads."""
    print(clean(text), file=sys.stderr, flush=True)


def json_line(value: Any) -> None:
    raw_line(msgspec.json.encode(value))


def raw_line(data: bytes) -> None:
    """Print a line of JSON. JSON escapes the ASCII control characters, so it stays one line. On a terminal other
    characters are escaped too: those that it would execute (U+009B), and those that reorder the visible text."""
    if sys.stdout.isatty():
        data = escape_unprintable(data.decode("utf-8", "replace")).encode()
    sys.stdout.buffer.write(data + b"\n")
    sys.stdout.buffer.flush()


def escape_unprintable(line: str) -> str:
    """Return equivalent JSON with only printable characters."""
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in line)


def progress_bar(title: str, *columns: "ProgressColumn") -> "Progress":
    """Return a progress bar with these columns, which shows nothing without a terminal."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    target = console(err=True)
    shown = (TextColumn(title), BarColumn(), *columns, TimeRemainingColumn())
    return Progress(*shown, console=target, transient=True, disable=not target.is_terminal)


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, no_color: bool = False, spare: Sequence[str] = ()
) -> None:
    """Print rows in columns. On a terminal the last column is cut to the width; in a pipe nothing is cut. `spare` are
    the columns that a narrow terminal does not show, in this order, so that the last column keeps some room."""
    from rich.cells import cell_len, set_cell_size
    from rich.text import Text

    target = console(no_color=no_color)
    lines = [list(head), *([clean(cell).replace("\n", " ").replace("\t", " ") for cell in line] for line in rows)]
    widths = [max(cell_len(line[i]) for line in lines) for i in range(len(head))]
    room = target.width if target.is_terminal else None
    shown = list(range(len(head))) if room is None else columns_shown(head, widths, room, spare)
    lines, widths = [[line[i] for i in shown] for line in lines], [widths[i] for i in shown]
    for number, line in enumerate(lines):
        parts = [set_cell_size(cell, widths[i]) for i, cell in enumerate(line[:-1])]
        text = "  ".join([*parts, line[-1]])
        if room is not None and cell_len(text) > room:
            text = set_cell_size(text, room - 1) + "…"
        target.print(Text(text.rstrip(), style="bold" if number == 0 else ""))


def columns_shown(head: Sequence[str], widths: Sequence[int], room: int, spare: Sequence[str]) -> list[int]:
    """Choose the columns for a terminal of `room` columns: spare ones are left out until the last one has its room."""
    shown = list(range(len(head)))
    needed = min(widths[-1], LAST_COLUMN)
    for name in spare:
        if sum(widths[i] + 2 for i in shown[:-1]) + needed <= room:
            break
        shown.remove(head.index(name))
    return shown


def ago(at: int, now_ms: int | None = None) -> str:
    """Format the time since a timestamp for people."""
    if at <= 0:
        return "never"
    gone = max(0, ((time.time_ns() // 1_000_000 if now_ms is None else now_ms) - at) // 1000)
    for size, word in ((86400, "d"), (3600, "h"), (60, "min")):
        if gone >= size:
            return f"{gone // size} {word} ago"
    return "now" if gone < 5 else f"{gone} s ago"


def size(count: int) -> str:
    for power, unit in ((3, "GB"), (2, "MB"), (1, "kB")):
        if count >= 1000**power:
            return f"{count / 1000**power:.1f} {unit}"
    return f"{count} B"
