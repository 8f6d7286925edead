"""The abilities of each version of the CLI. Pure: data and functions; all of it was observed.

Observed on the versions of docs/reference/compatibility.md; the dial-in boundary was found by bisection (2.1.120
accepts, 2.1.121 rejects). The versions between two tested ones that differ were not tested: the newer behaviour is
assumed only from the version on which it was seen.
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
"""How subagents are reported: seen on these versions, and not on 2.1.37, 2.1.118 (it lacks the keyword) and 2.1.156."""

_CARRIES_SINCE: Final[Version] = (2, 1, 280)
_COUNTS_TURNS_SINCE: Final[Version] = (2, 1, 310)
"""Cost totals: 2.1.260 does not carry them over. Since 2.1.310 a result also has the turn's own numbers."""

_PATTERN: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)")


def parse_version(text: str) -> Version | None:
    """Parse `claude --version` ("2.1.325 (Claude Code)"), `claude_code_version` or a transcript's `version`."""
    found = _PATTERN.search(text)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def dotted(version: Version) -> str:
    return ".".join(map(str, version))


class Abilities(msgspec.Struct, frozen=True, kw_only=True):
    """The behaviour of one version."""

    modes: tuple[str, ...]
    """The permission modes it knows; we reject any other, since old versions accept nonsense."""
    dial_in: bool
    """`--sdk-url` to a local host works."""
    reports_modes: bool
    """It reports a changed mode in a system/status record; else only the answer to set_permission_mode shows it."""
    takes_cancel: bool
    """It accepts our control_cancel_request; else the message ends the process."""
    takes_environment: bool
    """update_environment_variables has an effect."""
    reconnect_s: float
    """How long it tries to reconnect when its dial-in socket drops, plus a margin."""
    close_code: int | None
    """The close code that ends it at once, with exit 0; None if it treats every close as a broken connection."""
    replays: bool
    """After a reconnect it resends its last 1000 messages; else its output in the meantime is lost on the wire."""
    writes_in_order: bool
    """It never writes a transcript row before the row's parent; else, on a busy machine, it sometimes writes an answer
    before its prompt."""
    stops_in_transcript: bool
    """The transcript's assistant rows have their true stop_reason; else it is always null."""
    reports_tasks: bool
    """It sends the end of a background task, which opens a turn by itself; else the end waits in the CLI's queue."""
    forwards_subagents: bool
    """It sends a foreground subagent's text if `initialize` asks for it; else it sends only the subagent's calls."""
    forwards_background: bool
    """It sends a background subagent's text and calls; else they are only in the subagent's file."""
    carries_totals: bool
    """The process that resumes a session continues its totals of cost and tokens, and sends nothing but totals; else
    the totals start from 0, or a result has the turn's own numbers."""


_MODES: Final = ("default", "acceptEdits", "bypassPermissions", "plan", "dontAsk")


def abilities(version: Version) -> Abilities:
    middle, talks = version >= _V120, version >= _V77
    return Abilities(
        modes=(*_MODES, *(["delegate"] if version < _V50 else []), *(["auto"] if middle else [])),
        dial_in=version <= _V120,
        reports_modes=talks,
        takes_cancel=talks,
        takes_environment=version < _V200,
        # Measured: 2.1.37 tries twice and exits after 5.1 s; 2.1.77 and 2.1.120 try for 600 s, with jitter.
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
