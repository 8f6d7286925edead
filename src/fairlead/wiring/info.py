"""Facts about a running gateway, for the command line and for embedding programs."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from fairlead.model.agents import AgentInfo
from fairlead.server.doors import OpenDoor
from fairlead.system.private_files import write_private
from fairlead.system.proctable import start_mark

SERVER_FILE = "server.json"
"""File in the data folder while a gateway runs: the other commands find its address there."""


class GatewayInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a gateway that has started."""

    url: str
    urls: tuple[str, ...]
    data: str
    token: str
    agent: AgentInfo
    version: str
    exposed: str = ""
    """What an agent can reach without a sandbox; empty if there is one."""
    doors: tuple[OpenDoor, ...] = ()


def write_server_file(data: Path, url: str, *, alone: bool) -> Callable[[], Any]:
    """Write the file and return the function that deletes it. `alone`: the process runs nothing but the gateway, so it
    may be signalled to stop the gateway."""
    path, pid = data / SERVER_FILE, os.getpid()
    facts = {"url": url, "pid": pid, "started": start_mark(pid), "alone": alone}
    write_private(path, json.dumps(facts).encode(), sync=False)
    return lambda: path.unlink(missing_ok=True)
