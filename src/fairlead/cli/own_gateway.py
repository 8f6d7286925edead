"""The process of the gateway that serves a data folder: signal exactly it, and wait for its end."""

import signal
from pathlib import Path

from fairlead.client.endpoint import ServerFile, read_server_file
from fairlead.client.errors import CommandFailed, Unreachable
from fairlead.system.clock import SystemClock
from fairlead.system.proctable import Process, kill, wait_gone


def find_process(folder: Path) -> Process:
    """Return the gateway's process. Raises Unreachable (no gateway runs), CommandFailed (it must not be signalled)."""
    server = read_server_file(folder)
    if server is None:
        raise Unreachable(f"No gateway runs on {folder}. Name another data folder with --data.")
    return process_of(server)


def process_of(server: ServerFile) -> Process:
    if not server.started:
        raise CommandFailed(
            f"The gateway (process {server.pid}) did not record when it started, so that it cannot be told from another "
            "process with this number: stop it where it was started."
        )
    if not server.alone:
        raise CommandFailed(f"The gateway runs inside another program (process {server.pid}): stop that program.")
    return Process(server.pid, server.started)


def terminate(process: Process) -> None:
    """Send SIGTERM. A process that has ended meanwhile is no error."""
    try:
        kill(process, signal.SIGTERM)
    except PermissionError:
        raise CommandFailed(f"The gateway (process {process.pid}) belongs to another user.") from None


async def wait_ended(process: Process) -> None:
    await wait_gone(process, SystemClock())
