"""The abilities of each version of the CLI. Pure: data and functions; all of it was observed.

Observed on the versions of docs/reference/compatibility.md; the dial-in boundary was found by bisection (2.1.120
accepts, 2.1.121 rejects). The versions between two tested ones that differ were not tested: the newer behaviour is
assumed only from the version on which it was seen.
"""

import re
from typing import Final

Version = tuple[int, int, int]

_V50: Final[Version] = (2, 1, 50)
_V77: Final[Version] = (2, 1, 77)
_V120: Final[Version] = (2, 1, 120)
_V200: Final[Version] = (2, 1, 200)

_FORWARDS_SINCE: Final[Version] = (2, 1, 119)
_BACKGROUND_SINCE: Final[Version] = (2, 1, 170)
"""How subagents are reported: seen on these versions, and not on 2.1.118 (it lacks the keyword) and 2.1.156."""

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


_MODES: Final = ("default", "acceptEdits", "bypassPermissions", "plan", "dontAsk")


class Abilities:
    def __init__(self, version: Version) -> None:
        middle, talks = version >= _V120, version >= _V77
        self.modes = (*_MODES, *(["delegate"] if version < _V50 else []), *(["auto"] if middle else []))
        """The permission modes it knows; we reject any other, since old versions accept nonsense."""
        self.dial_in = version <= _V120
        """`--sdk-url` to a local host works."""
        self.reports_modes = talks
        """It reports a changed mode in a system/status record; else only the answer to set_permission_mode shows it."""
        self.takes_cancel = talks
        """It accepts our control_cancel_request; else the message ends the process."""
        self.takes_environment = version < _V200
        """update_environment_variables has an effect."""
        self.reconnect_s = 630.0 if talks else 8.0
        """How long it tries to reconnect when its dial-in socket drops, plus a margin. Measured: 2.1.37 tries twice and
        exits after 5.1 s; 2.1.77 and 2.1.120 try for 600 s, with jitter."""
        self.close_code = 4001 if talks else None
        """The close code that ends it at once, with exit 0; None if it treats every close as a broken connection."""
        self.replays = talks
        """After a reconnect it resends its last 1000 messages; else its output in the meantime is lost on the wire."""
        self.writes_in_order = middle
        """It never writes a transcript row before the row's parent; else, on a busy machine, it sometimes writes an
        answer before its prompt."""
        self.stops_in_transcript = middle
        """The transcript's assistant rows have their true stop_reason; else it is always null."""
        self.shows_hook_status = version >= (2, 1, 325)
        """It shows a hook's `statusMessage` while the hook runs (seen on 2.1.325, not on 2.1.120); else only "running
        PreToolUse hook"."""
        self.reports_tasks = version >= _V50
        """It sends the end of a background task, which opens a turn by itself; else (2.1.37) the end waits in the CLI's
        queue."""
        self.forwards_subagents = version >= _FORWARDS_SINCE
        """It sends a foreground subagent's text if `initialize` asks for it; else it sends only the subagent's
        calls."""
        self.forwards_background = version >= _BACKGROUND_SINCE
        """It sends a background subagent's text and calls; else they are only in the subagent's file."""
        self.carries_totals = _CARRIES_SINCE <= version < _COUNTS_TURNS_SINCE
        """The process that resumes a session continues its totals of cost and tokens, and sends nothing but totals;
        else the totals start from 0, or a result has the turn's own numbers."""
