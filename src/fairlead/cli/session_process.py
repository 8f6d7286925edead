"""The session of the agent that this process belongs to, by the variables that the gateway gave to the agent.

Some agents start their MCP servers with an environment of their own, without these variables. On Linux they are then
read from the processes above this one, so that an agent of the gateway is not taken for one outside.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from fairlead.agents.environment import SESSION_TOKEN, SESSION_URL
from fairlead.client.endpoint import GatewayEndpoint, checked_url

MOST_ANCESTORS: Final = 64
_PROC: Final = Path("/proc")


def session_endpoint(env: Mapping[str, str], proc: Path = _PROC) -> GatewayEndpoint | None:
    """Return the gateway that runs the session of this process, with the token of the session's agent, if there is
    one."""
    for found in (env, *_environments_above(proc)):
        url, token = found.get(SESSION_URL, ""), found.get(SESSION_TOKEN, "")
        if url and token:
            return GatewayEndpoint(checked_url(url), token, own=True)
    return None


def _environments_above(proc: Path) -> Iterator[dict[str, str]]:
    """The environments of the parent process, its parent and so on, as far as they can be read."""
    process = os.getppid()
    for _ in range(MOST_ANCESTORS):
        try:
            raw = (proc / str(process) / "environ").read_bytes()
        except OSError:
            raw = b""  # another user's process, or no /proc
        pairs = (part.partition("=") for part in raw.decode(errors="replace").split("\0"))
        yield {name: value for name, equals, value in pairs if equals}
        try:
            # The name of the program comes before, in parentheses, and may have any characters.
            fields = (proc / str(process) / "stat").read_text(errors="replace").rpartition(")")[2].split()
            process = int(fields[1])
        except (OSError, IndexError, ValueError):
            return
        if process <= 1:
            return
