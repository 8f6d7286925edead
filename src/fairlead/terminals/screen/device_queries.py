"""Answers a program's queries to its terminal, once, here; they are never sent to watchers.

Otherwise every watcher's terminal would type its own answer into the program, even that of a read-only watcher. The
emulator supports more than a plain terminal; it answers only what is true of every terminal that may be watching.
"""

import re
from typing import Final

from fairlead.terminals.screen.ghostty import Vt
from fairlead.terminals.screen.modes import DEFAULTS
from fairlead.terminals.screen.tokenizer import Token, TokenKind

_REPORTS: Final = frozenset({"11", "13", "14", "15", "16", "18", "19", "20", "21"})
_COLOUR: Final = re.compile(r"(?:4;\d+|5;\d+|1\d|52;[^;]*);\?\Z")
_SETTINGS: Final = frozenset({"$qm", "$qr", "$q q"})
_MODES: Final = frozenset({"4", "20", *(f"?{mode}" for mode in DEFAULTS)})


def is_query(token: Token) -> bool:
    match token.kind:
        case TokenKind.CSI:
            return _asks(token)
        case TokenKind.OSC:
            return _COLOUR.match(token.body) is not None
        case TokenKind.STRING:
            return token.final == "P" and token.body.startswith(("$q", "+q"))
        case TokenKind.ESCAPE:
            return token.final == "Z" and not token.body
        case TokenKind.ENQUIRY:
            return True
        case TokenKind.RUN:
            return False


def _asks(token: Token) -> bool:
    match (token.mark, token.intermediates, token.final):
        case (_, "", "c") | ("" | "?", "", "n") | (">", "", "q") | ("?", "", "u") | ("", "", "x"):
            return True
        case ("" | "?", "$", "p") | ("?", "", "m"):
            return True
        case ("", "", "t"):
            return token.body.split(";")[0] in _REPORTS
        case _:
            return False


def answer(token: Token, terminal: Vt, columns: int, rows: int) -> bytes:
    """The answer of a plain terminal; empty for an unknown query."""
    match (token.kind, token.body, token.intermediates, token.final):
        case (
            (TokenKind.ESCAPE, _, _, _)
            | (TokenKind.CSI, "" | "0" | ">" | ">0", "", "c")
            | (TokenKind.CSI, "5" | "6", "", "n")
        ):
            return terminal.ask(token.raw.encode())
        case (TokenKind.CSI, "?6", "", "n"):
            return terminal.ask(b"\x1b[6n").replace(b"[", b"[?")
        case (TokenKind.CSI, "18", "", "t"):
            return b"\x1b[8;%d;%dt" % (rows, columns)
        case (TokenKind.CSI, mode, "$", "p") if mode in _MODES:
            return terminal.ask(token.raw.encode())
        case (TokenKind.CSI, mode, "$", "p") if len(mode) < 8:
            return f"\x1b[{mode};0$y".encode()
        case (TokenKind.STRING, body, _, _) if body in _SETTINGS:
            return terminal.ask(token.raw.encode())
        case _:
            return b""
