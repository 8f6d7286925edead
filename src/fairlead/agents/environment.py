"""The environment of an agent's process: it starts empty, and gets only variables that are named. Pure."""

from collections.abc import Mapping
from typing import Final

_LOCALE: Final = ("LANG", "LC_ALL", "LC_CTYPE", "TZ")
BASIC_VARIABLES: Final = (*_LOCALE, "PATH", "HOME", "TERM", "TMPDIR", "USER", "LOGNAME", "SHELL")
"""Variables that every program needs to run."""

SESSION_URL: Final = "FAIRLEAD_SESSION_URL"
SESSION_TOKEN: Final = "FAIRLEAD_SESSION_TOKEN"
"""Variables of an agent's process: the gateway's address, and the token of the session's agent (`fairlead mcp`)."""

OURS: Final = "FAIRLEAD_"
"""Prefix of the gateway's own variables. They hold its token and are never passed on, even if named."""


def basic_environment(host: Mapping[str, str], passed: tuple[str, ...]) -> dict[str, str]:
    """The variables of the host that every program needs, and those named in `passed`."""
    names = [*BASIC_VARIABLES, *passed]
    return {name: host[name] for name in names if name in host and not name.upper().startswith(OURS)}
