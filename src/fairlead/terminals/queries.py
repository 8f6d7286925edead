"""What a program asks its terminal. We are the terminal: we answer, once, and no watcher is asked. Pure.

Else every watcher's terminal would type its own answer into the program, those too that may only look.
"""

import re
from typing import Final

from fairlead.terminals.tokens import Kind, Token

ENQUIRY: Final = "\x05"
_REPORTS: Final = frozenset({"11", "13", "14", "15", "16", "18", "19", "20", "21"})
_COLOUR: Final = re.compile(r"(?:4;\d+|5;\d+|1\d|52;[^;]*);\?\Z")


def is_query(token: Token) -> bool:
    match token.kind:
        case Kind.CSI:
            return _asks(token)
        case Kind.OSC:
            return _COLOUR.match(token.body) is not None
        case Kind.STRING:
            return token.final == "P" and token.body.startswith(("$q", "+q"))
        case Kind.ESCAPE:
            return token.final == "Z" and not token.body
        case _:
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


def answer(token: Token, row: int, column: int, columns: int, rows: int) -> str:
    """What a plain terminal says; empty for what it does not know. The cursor counts from 0."""
    if token.kind is Kind.ESCAPE:
        return "\x1b[?62;22c"
    match (token.body, token.intermediates, token.final):
        case ("" | "0", "", "c"):
            return "\x1b[?62;22c"
        case (">" | ">0", "", "c"):
            return "\x1b[>0;0;0c"
        case ("5", "", "n"):
            return "\x1b[0n"
        case ("6", "", "n"):
            return f"\x1b[{row + 1};{column + 1}R"
        case ("?6", "", "n"):
            return f"\x1b[?{row + 1};{column + 1}R"
        case ("18", "", "t"):
            return f"\x1b[8;{rows};{columns}t"
        case (mode, "$", "p") if len(mode) < 8:
            return f"\x1b[{mode};0$y"
        case _:
            return ""
