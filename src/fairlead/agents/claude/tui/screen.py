"""Recognizes the state of the interactive CLI from its screen: a prompt, a person's text in it, work, or a dialog.

Pure. Only the lowest box counts: the conversation above it may contain any text. Seen on 2.1.37, 2.1.120 and 2.1.325
(tests/golden/claude-screens): the prompt is a line of `❯` between two rules, drawn at the bottom; below it are hints,
with `esc to interrupt` among them while it works and nothing is typed; above it, at the left edge, is its current
activity. A dialog replaces the box. Nothing here answers a dialog: a person does.
"""

import re
from itertools import pairwise
from typing import Final, Literal

import msgspec

from fairlead.terminals.api import Screen

State = Literal["starting", "prompt", "typed", "working", "dialog"]

_RULE: Final = re.compile(r"─{12,}")
"""A rule at the left edge, where no line of the conversation begins with one. Its right end may contain a word."""
_CHOICE: Final = re.compile(r"\s*❯\s*(?:\d+\.|Yes\b|No\b)")
_NEEDS_ANSWER: Final = re.compile(
    r"\b(?:enter to (?:confirm|select|continue)|press enter|esc to (?:cancel|close))\b", re.IGNORECASE
)
_WORKS: Final = re.compile(r"\besc to interrupt\b", re.IGNORECASE)
_DOING: Final = re.compile(r"[·✢✳✶✻✽*∗] \S.*…")
"""A turning star and a word, at the left edge: `✶ Cerebrating… (1s · ↓ 9 tokens)`. When it is done, there is no `…`."""
_DOING_STILL: Final = re.compile(r"● (?:\S+…|\S.*… \(.*\b\d+s\b.*\))\s*$")
"""The same with the CLI's setting `prefersReducedMotion`: a dot, with which a text of the model begins, too."""
_RESTS: Final = re.compile(r"\? for shortcuts\b")
"""A hint that is shown only while it does nothing and nothing is typed: a text in the box is then a placeholder, such
as `Resend your message to try again` after an error (2.1.327)."""
_PLACEHOLDERS: Final = ('Try "', "Press up to edit queued messages")
"""Texts that an empty box may show without that hint."""
ABOVE: Final = 8
"""Lines above the box that are searched for its activity: the activity itself, tips and queued messages."""

_KINDS: Final = (
    ("trust", ("trust the files", "do you trust", "trust this folder", "quick safety check")),
    ("api_key", ("custom api key", "use this api key")),
    ("sign_in", ("select login method", "choose the text style", "let's get started", "syntax theme")),
)


class ScreenState(msgspec.Struct, frozen=True):
    """`text` is the content of the box, as far as the screen shows it; `lines` are the lines of a dialog; `kind` is the
    kind of dialog, `other` if unknown."""

    state: State
    text: str = ""
    kind: str = ""
    lines: tuple[str, ...] = ()


def read(screen: Screen) -> ScreenState:
    lines = screen.lines
    box = _box(lines)
    if box is None:
        return _without_box(lines)
    top, bottom = box
    below = lines[bottom + 1 :]
    if any(_CHOICE.match(line) for line in below) or any(_NEEDS_ANSWER.search(line) for line in below):
        # The box is part of the conversation, and a dialog is below it.
        return _dialog(lines[bottom + 1 :])
    hints = _joined(below)
    text = "" if _RESTS.search(hints) else _text(lines[top + 1 : bottom])
    if _is_doing(lines[max(0, top - ABOVE) : top], hints):
        return ScreenState("working", text)
    return ScreenState("typed", text) if text else ScreenState("prompt")


def _is_doing(above: tuple[str, ...], hints: str) -> bool:
    if _WORKS.search(hints) or any(_DOING.match(line) for line in above):
        return True
    return not _RESTS.search(hints) and any(_DOING_STILL.match(line) for line in above)


def _box(lines: tuple[str, ...]) -> tuple[int, int] | None:
    """The rules around the lowest prompt."""
    rules = [index for index, line in enumerate(lines) if _is_rule(line)]
    lowest = next(((top, bottom) for top, bottom in reversed(list(pairwise(rules))) if bottom - top > 1), None)
    return lowest if lowest is not None and lines[lowest[0] + 1][:1] in ("❯", "!", "#") else None


def _is_rule(line: str) -> bool:
    return _RULE.match(line) is not None


def _text(inside: tuple[str, ...]) -> str:
    first = inside[0]
    if not first.startswith("❯"):
        return "\n".join(inside)  # a mode of the box that a person chose: `!` runs a shell command
    text = "\n".join([first[1:].strip("\xa0 "), *(line.strip() for line in inside[1:])]).strip()
    return "" if text.startswith(_PLACEHOLDERS) else text


def _joined(lines: tuple[str, ...]) -> str:
    """The lines as one: hints are wrapped on a narrow screen."""
    return re.sub(r"\s+", " ", " ".join(lines))


def _without_box(lines: tuple[str, ...]) -> ScreenState:
    asks = [index for index, line in enumerate(lines) if _CHOICE.match(line)]
    asks = asks or [index for index, line in enumerate(lines) if _NEEDS_ANSWER.search(line)]
    if not asks:
        return ScreenState("starting")
    rules = [index for index, line in enumerate(lines[: asks[-1]]) if _is_rule(line)]
    return _dialog(lines[rules[-1] + 1 if rules else 0 :])


def _dialog(lines: tuple[str, ...]) -> ScreenState:
    shown = tuple(line.rstrip() for line in lines if line.strip() and not _is_rule(line))
    words = _joined(shown).lower()
    kind = next((kind for kind, signs in _KINDS if any(sign in words for sign in signs)), "other")
    return ScreenState("dialog", kind=kind, lines=shown)
