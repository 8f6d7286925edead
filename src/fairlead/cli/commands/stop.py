"""`fairlead stop` and `fairlead drain`: end the gateway, with its agents or without, at once or when it is idle."""

import asyncio
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Final

import typer

from fairlead.cli.context import CommandContext, command, run_async
from fairlead.cli.errors import Interrupted
from fairlead.cli.output import ago, hint, json_line
from fairlead.client.endpoint import read_server_file
from fairlead.client.errors import CommandFailed, Unreachable, UsageError

if TYPE_CHECKING:
    from fairlead.cli.client import Api
    from fairlead.sessions.api.operation import GatewayState, WorkingSession

REFRESH_S: Final = 0.5
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600}
TAKE_BACK: Final = "The drain goes on. Watch it with: fairlead drain. Take it back with: fairlead drain --cancel"


@command("fairlead stop", "fairlead stop --agents", "fairlead stop --data ~/.fairlead", gateway=False)
async def stop(
    context: CommandContext,
    agents: Annotated[
        bool, typer.Option("--agents", help="Also end the agents and terminals, turns included.")
    ] = False,
) -> None:
    """Stop the gateway of the data folder, and wait until it has ended.

    Its agents and terminals go on: the next gateway takes them over, in the middle of a turn too. With --agents they
    end, also those that an earlier gateway left. `fairlead drain` stops a gateway when its turns are over."""
    from fairlead.cli.own_gateway import end_gateway, end_kept

    folder = context.endpoint.folder()
    if read_server_file(folder) is not None or not agents:
        await end_gateway(context.endpoint, agents=agents)
    elif not await end_kept(folder):
        raise Unreachable(f"No gateway runs on {folder}, and no agent or terminal of an earlier one is left.")
    if context.json:
        json_line({"data": str(folder), "agents": agents})


# --- drain ----------------------------------------------------------------------------------------------------


@command("fairlead drain", "fairlead drain --timeout 10m", "fairlead drain --cancel")
def drain(
    context: CommandContext,
    timeout: Annotated[
        str | None, typer.Option("--timeout", metavar="TIME", help="Stop waiting after this time: 90s, 10m, 2h.")
    ] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Take a drain back: the gateway goes on.")] = False,
) -> None:
    """Let the gateway finish its turns and background work, then end its agents and terminals and stop.

    No new turn is started meanwhile: messages stay queued until the next start. Ctrl-C and --timeout end only the
    waiting (exit code 130 and 1): the drain goes on."""
    if cancel:
        if timeout is not None:
            raise UsageError("--timeout cannot be combined with --cancel.")
        run_async(_cancel(context))
        return
    seconds = None if timeout is None else parse_time(timeout)
    try:
        run_async(_drain(context, seconds))
    except Interrupted:
        raise Interrupted(TAKE_BACK) from None


def parse_time(text: str) -> int:
    """Return a number of seconds. Raises UsageError."""
    match = re.fullmatch(r"(\d{1,6})([smh])", text.strip().lower())
    if match is None:
        raise UsageError(f"--timeout {text[:40]!r} is not a time: 90s, 10m and 2h are.")
    return int(match[1]) * _SECONDS[match[2]]


async def _cancel(context: CommandContext) -> None:
    from fairlead.sessions.api.operation import GatewayState

    async with context.api() as api:
        before = await api.get("/v1/gateway", GatewayState)
        after = await api.call("DELETE", "/v1/gateway/drain", GatewayState)
    if after.state == "stopping":
        raise CommandFailed("It is too late: the gateway stops.")
    text = "The gateway was not draining." if before.state == "running" else "The gateway starts turns again."
    context.print_result(after, text)


async def _drain(context: CommandContext, seconds: int | None) -> None:
    from fairlead.cli.own_gateway import process_of, wait_ended
    from fairlead.sessions.api.operation import GatewayState

    # While it runs: its file is gone when it has stopped.
    server = None if context.endpoint.url else read_server_file(context.endpoint.folder())
    async with context.api() as api:
        state = await api.call("POST", "/v1/gateway/drain", GatewayState)
        hint("The gateway drains: it starts no more turns, and stops when no session works.")
        if state.terminals:
            hint(f"Terminals that are open now, and end with it: {state.terminals}.")
        try:
            async with asyncio.timeout(seconds):
                await _watch(api, state, context.json)
                if server is not None and server.alone:
                    await wait_ended(process_of(server))
                    hint("Stopped.")
                else:
                    hint("It no longer answers.")
        except TimeoutError:
            raise CommandFailed(
                f"The gateway still works. {TAKE_BACK}. End it with its agents: fairlead stop --agents"
            ) from None


async def _watch(api: "Api", state: "GatewayState", json: bool) -> None:
    """Print what the gateway waits for, until it stops; with `json`, its state when that changes.

    Raises CommandFailed if the drain was taken back."""
    from fairlead.sessions.api.operation import GatewayState

    shown: dict[str, WorkingSession] = {}
    printed: GatewayState | None = None
    while True:
        if json and state != printed:
            json_line(state)
            printed = state
        now: dict[str, WorkingSession] = {working.session: working for working in state.working}
        for line in changed_lines(shown, now):
            hint(line)
        shown = now
        if state.state == "running":
            raise CommandFailed("The drain was taken back: the gateway goes on.")
        if state.state == "stopping":
            return
        await asyncio.sleep(REFRESH_S)
        try:
            state = await api.get("/v1/gateway", GatewayState)
        except Unreachable:
            return


def changed_lines(before: "Mapping[str, WorkingSession]", now: "Mapping[str, WorkingSession]") -> Iterator[str]:
    """Yield a line for each session whose work has changed, and for each that works no more."""
    for session, working in now.items():
        if session not in before or before[session].work != working.work:
            work = ", ".join(working.work)
            yield f"  {session[:8]}  {working.title or 'untitled'}: {work} (turn began {ago(working.since)})"
    for session, working in before.items():
        if session not in now:
            yield f"  {session[:8]}  {working.title or 'untitled'}: idle"
