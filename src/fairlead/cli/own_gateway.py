"""The gateway that serves a data folder, and the keeper behind it: ends exactly them, and waits for it."""

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fairlead.cli.output import hint
from fairlead.client.endpoint import EndpointOptions, ServerFile, read_server_file
from fairlead.client.errors import ClientError, CommandFailed, Unreachable
from fairlead.system.clock import SystemClock
from fairlead.system.process_group import StopTimeouts
from fairlead.system.process_wait import wait_gone
from fairlead.system.proctable import Process, kill

if TYPE_CHECKING:
    from fairlead.sessions.api.operation import GatewayState

ANSWER_S: Final = 10.0
"""Time for a gateway's answer before it is stopped without one."""


async def end_gateway(endpoint: EndpointOptions, *, agents: bool) -> None:
    """Stop the gateway of the data folder and wait until it has ended. `agents`: with its agents and terminals. Raises
    Unreachable (no gateway runs), CommandFailed (its process must not be signalled)."""
    folder = endpoint.folder()
    server = read_server_file(folder)
    if server is None:
        raise Unreachable(f"No gateway runs on {folder}. Name another data folder with --data.")
    process = process_of(server)
    hint(f"Stopping the gateway of {folder} (process {process.pid}) ...")
    state = await _request_stop(endpoint, agents=agents)
    if state is None or not agents:
        _terminate(process)
    await wait_ended(process)
    hint(f"Stopped.{_left(state, agents=agents)}")
    if agents:
        # A gateway that did not answer has left them to the keeper.
        await end_kept(folder)


def process_of(server: ServerFile) -> Process:
    if not server.started:
        raise CommandFailed(
            f"The gateway (process {server.pid}) did not record when it started, so it cannot be distinguished from "
            "another process with this number: stop it where it was started."
        )
    if not server.alone:
        raise CommandFailed(f"The gateway runs inside another program (process {server.pid}): stop that program.")
    return Process(server.pid, server.started)


async def wait_ended(process: Process) -> None:
    await wait_gone(process, SystemClock())


async def _request_stop(endpoint: EndpointOptions, *, agents: bool) -> "GatewayState | None":
    """Return the state of the gateway, which stops if `agents`; None if it does not answer."""
    from fairlead.cli.client import Api
    from fairlead.clients.native.operation import StopBody
    from fairlead.sessions.api.operation import GatewayState

    try:
        async with asyncio.timeout(ANSWER_S), Api(endpoint.find) as api:
            if agents:
                return await api.post("/v1/gateway/stop", GatewayState, StopBody(agents=True))
            return await api.get("/v1/gateway", GatewayState)
    except TimeoutError:
        hint("It does not answer.")
    except ClientError as error:
        hint(f"It does not answer: {error.message}")
    return None


def _terminate(process: Process) -> None:
    try:
        kill(process, signal.SIGTERM)
    except PermissionError:
        raise CommandFailed(f"The gateway (process {process.pid}) belongs to another user.") from None


def _left(state: "GatewayState | None", *, agents: bool) -> str:
    """Describe what became of the agents and terminals."""
    if state is None:
        return ""
    if agents or state.on_stop == "end":
        ended = _count(state.agents, state.terminals)
        return f" Ended with it: {ended}." if ended else ""
    return describe_left(state.kept, state.terminals)


def describe_left(agents: int, terminals: int) -> str:
    """Describe agents and terminals that run on without a gateway; empty if there are none."""
    left = _count(agents, terminals)
    if not left:
        return ""
    return (
        f" Running on without it: {left}. The next gateway takes them over; without one they end after some time "
        "(setting orphan_minutes). End them now with: fairlead stop --agents"
    )


def _count(agents: int, terminals: int) -> str:
    counts = ((agents, "agent"), (terminals, "terminal"))
    return " and ".join(f"{count} {name}{'' if count == 1 else 's'}" for count, name in counts if count)


async def end_kept(folder: Path) -> int:
    """End the processes that a keeper holds while no gateway runs; return their number. The next gateway still gets
    what they wrote, and their exit."""
    from fairlead.keeper.client import connect

    try:
        keeper = await connect(folder, SystemClock())
    except OSError:
        return 0
    kept = [process for process in keeper.found if process.running]
    if kept:
        hint(f"Ending what the keeper holds: {len(kept)} agents and terminals ...")
        await asyncio.gather(*(process.end(StopTimeouts()) for process in kept))
        hint("Ended.")
    await keeper.close(quit=True)
    return len(kept)
