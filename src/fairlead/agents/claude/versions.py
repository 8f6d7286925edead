"""What a version of the CLI can, and how it differs. Data and pure functions; all of it was observed.

Seen on the versions of docs/reference/compatibility.md, the boundary of the dial-in by bisection (2.1.120 accepts,
2.1.121 refuses). Between two versions that differ nobody has looked: the newer behaviour is assumed only from the
version on which it was seen.
"""

import re
from typing import Final

import msgspec

Version = tuple[int, int, int]

_V50: Final[Version] = (2, 1, 50)
_V77: Final[Version] = (2, 1, 77)
_V120: Final[Version] = (2, 1, 120)
_V200: Final[Version] = (2, 1, 200)

_REPORTS_SINCE: Final[Version] = (2, 1, 50)
_FORWARDS_SINCE: Final[Version] = (2, 1, 119)
_BACKGROUND_SINCE: Final[Version] = (2, 1, 170)
"""How subagents are told: seen on these, and not on 2.1.37, 2.1.118 (it lacks the word) and 2.1.156."""

_CARRIES_SINCE: Final[Version] = (2, 1, 280)
_COUNTS_TURNS_SINCE: Final[Version] = (2, 1, 310)
"""Totals: not carried over by 2.1.260. From 2.1.310 on a result has the turn's own numbers as well."""

_PATTERN: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)")


def parse_version(text: str) -> Version | None:
    """From `claude --version` ("2.1.325 (Claude Code)"), `claude_code_version` or a transcript's `version`."""
    found = _PATTERN.search(text)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


class Abilities(msgspec.Struct, frozen=True, kw_only=True):
    """What to do and what to leave with one version."""

    modes: tuple[str, ...]
    """The permission modes it knows; any other is refused by us, since old versions accept nonsense."""
    dial_in: bool
    """`--sdk-url` to a local host works."""
    tells_modes: bool
    """A changed mode is told by a system/status; else the answer to set_permission_mode is all there is."""
    answers_unknown: bool
    """A control subtype that it does not know is answered with an error; else with silence."""
    takes_cancel: bool
    """A control_cancel_request of ours is accepted; else it ends the process."""
    takes_environment: bool
    """update_environment_variables has an effect."""
    reconnect_s: float
    """How long it tries to come back when its dial-in socket drops, and a little more."""
    close_code: int | None
    """The code of a close that ends it at once, with exit 0; None where every close is a broken line to it."""
    replays: bool
    """When it comes back it says its last 1000 messages again; else what it said meanwhile is lost on the wire."""
    writes_in_order: bool
    """A row of the transcript never comes before the one that it follows; else, on a busy machine, an answer is now
    and then written before its prompt."""
    stops_in_transcript: bool
    """The transcript's assistant rows have their true stop_reason; else it is always null."""
    reports_tasks: bool
    """The end of a background task is sent, and opens a turn by itself; else it waits in the CLI's queue."""
    forwards_subagents: bool
    """What a subagent says that is waited for is sent, if `initialize` asks for it; else only its calls are."""
    forwards_background: bool
    """What a subagent says and does in the background is sent; else it is in its file alone."""
    carries_totals: bool
    """The totals of a session's cost and tokens go on in the process that resumes it, and they are all that is sent;
    else they start from 0, or a result has the turn's own numbers."""


_MODES: Final = ("default", "acceptEdits", "bypassPermissions", "plan", "dontAsk")


def abilities(version: Version) -> Abilities:
    middle, talks = version >= _V120, version >= _V77
    return Abilities(
        modes=(*_MODES, *(["delegate"] if version < _V50 else []), *(["auto"] if middle else [])),
        dial_in=version <= _V120,
        tells_modes=talks,
        answers_unknown=talks,
        takes_cancel=talks,
        takes_environment=version < _V200,
        # Measured: 2.1.37 tries twice and is gone after 5.1 s; 2.1.77 and 2.1.120 have 600 s, with jitter.
        reconnect_s=630.0 if talks else 8.0,
        close_code=4001 if talks else None,
        replays=talks,
        writes_in_order=middle,
        stops_in_transcript=middle,
        reports_tasks=version >= _REPORTS_SINCE,
        forwards_subagents=version >= _FORWARDS_SINCE,
        forwards_background=version >= _BACKGROUND_SINCE,
        carries_totals=_CARRIES_SINCE <= version < _COUNTS_TURNS_SINCE,
    )
