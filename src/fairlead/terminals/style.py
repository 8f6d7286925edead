"""How a character looks: colours and attributes, read from SGR parameters and told by them. Pure."""

from functools import lru_cache
from typing import Final, NamedTuple

_MOST_PARAMETERS: Final = 64
_FLAGS: Final = {1: 1, 2: 2, 3: 4, 5: 8, 6: 8, 7: 16, 8: 32, 9: 64, 53: 128}
"""SGR codes that turn something on, and its bit."""
_OFF: Final = {22: 1 | 2, 23: 4, 25: 8, 27: 16, 28: 32, 29: 64, 55: 128}
_CODES: Final = ((1, 1), (2, 2), (3, 4), (5, 8), (7, 16), (8, 32), (9, 64), (53, 128))


class Style(NamedTuple):
    """Colours and underline are kept as the parameters that make them, empty for the default."""

    fg: str = ""
    bg: str = ""
    under: str = ""
    under_colour: str = ""
    flags: int = 0

    def apply(self, body: str) -> "Style":
        """This style after the SGR with these parameters. What is not understood changes nothing."""
        return _apply(self, body)

    def sgr(self) -> str:
        """The sequence that makes this style, whatever was before."""
        return _sgr(self)

    def blank(self) -> "Style":
        """Of a cell that is erased with this style: its background alone."""
        return Style(bg=self.bg) if self.bg else PLAIN


PLAIN: Final = Style()


@lru_cache(maxsize=1024)
def _sgr(style: Style) -> str:
    parts = ["0", *(str(code) for code, bit in _CODES if style.flags & bit)]
    parts += [part for part in (style.under, style.fg, style.bg, style.under_colour) if part]
    return f"\x1b[{';'.join(parts)}m"


@lru_cache(maxsize=1024)
def _apply(style: Style, body: str) -> Style:
    parameters = body.split(";", _MOST_PARAMETERS)[:_MOST_PARAMETERS]
    at = 0
    while at < len(parameters):
        parameter = parameters[at]
        at += 1
        code, *sub = (_number(part) for part in parameter.split(":"))
        if code in (38, 48, 58):
            used, colour = _colour(code, sub) if sub else _colour(code, [_number(p) for p in parameters[at : at + 4]])
            at += 0 if sub else used
            if colour:
                style = _coloured(style, code, colour)
        elif code == 4:
            style = style._replace(under="" if sub == [0] else parameter if sub else "4")
        else:
            style = _plain(style, code)
    return style


def _plain(style: Style, code: int) -> Style:
    if code == 0:
        return PLAIN
    if code in _FLAGS:
        return style._replace(flags=style.flags | _FLAGS[code])
    if code in _OFF:
        return style._replace(flags=style.flags & ~_OFF[code])
    if code == 21:
        return style._replace(under="21")
    if code == 24:
        return style._replace(under="")
    if 30 <= code <= 37 or 90 <= code <= 97:
        return style._replace(fg=str(code))
    if 40 <= code <= 47 or 100 <= code <= 107:
        return style._replace(bg=str(code))
    if code in (39, 49, 59):
        return _coloured(style, code - 1, "")
    return style


def _coloured(style: Style, code: int, colour: str) -> Style:
    if code == 38:
        return style._replace(fg=colour)
    return style._replace(bg=colour) if code == 48 else style._replace(under_colour=colour)


def _colour(code: int, parts: list[int]) -> tuple[int, str]:
    """How many parameters a colour took, and the parameters that make it; none if it is no colour."""
    match parts:
        case [5, index, *_] if 0 <= index <= 255:
            return 2, f"{code}:5:{index}" if code == 58 else f"{code};5;{index}"
        case [2, _, red, green, blue] if max(red, green, blue) <= 255 and min(red, green, blue) >= 0:
            # With a colour space in front, which nobody uses; only in the form with colons.
            used, rgb = 4, (red, green, blue)
        case [2, red, green, blue, *_] if max(red, green, blue) <= 255 and min(red, green, blue) >= 0:
            used, rgb = 4, (red, green, blue)
        case [5, *_]:
            return 2, ""
        case [2, *_]:
            return 4, ""
        case _:
            return 0, ""
    if code == 58:
        return used, "58:2::" + ":".join(map(str, rgb))
    return used, f"{code};2;" + ";".join(map(str, rgb))


def _number(text: str) -> int:
    """Empty is 0; what is no small number is -1, which means nothing."""
    if not text:
        return 0
    return int(text) if len(text) <= 5 and text.isdecimal() else -1
