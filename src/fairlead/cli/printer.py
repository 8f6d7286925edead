"""Printing of rendered events on a console."""

from collections.abc import Iterable
from typing import Final

from rich.console import Console
from rich.text import Text

from fairlead.cli.render import Flow, Piece, RenderedRow
from fairlead.cli.sanitize import one_line

_WIPE: Final = "\r\x1b[2K"
"""Return to the start of the line and clear it: every terminal with colours supports this."""


class Printer:
    """Prints pieces on a console. Tracks whether the cursor is in the middle of a line, and whether the line is a
    status line (`status`), which the next output replaces."""

    def __init__(self, target: Console) -> None:
        self._console = target
        self._column_zero = True
        self._passing = False

    def show(self, pieces: Iterable[Piece]) -> None:
        self._wipe()
        for piece in pieces:
            match piece:
                case Flow():
                    if piece.text:
                        self._console.print(Text(piece.text, style=piece.style), end="")
                        self._column_zero = piece.text.endswith("\n")
                case RenderedRow():
                    self.fresh()
                    text = Text("  " * piece.indent)
                    for content, style in piece.spans:
                        text.append(content, style=style or None)
                    if piece.spans:
                        self._console.print(text)
        self._console.file.flush()

    def status(self, text: str) -> None:
        """Show the current activity until the next output; only on a terminal, and never in the middle of a line."""
        if self._column_zero and self._console.is_terminal:
            self._console.file.write(f"{_WIPE}{one_line(text, self._console.width - 1)}")
            self._console.file.flush()
            self._passing = True

    def _wipe(self) -> None:
        if self._passing:
            self._console.file.write(_WIPE)
            self._passing = False

    def fresh(self) -> None:
        """Begin a new line unless one has just begun."""
        self._wipe()
        if not self._column_zero:
            self._console.print()
            self._column_zero = True

    def ask(self, text: str) -> None:
        """Show a prompt; the cursor stays after it until the person presses Enter."""
        self.fresh()
        self._console.print(Text(text, style="bold"), end="")
        self._console.file.flush()
