"""Commands on one session: follow it, send to it, move it to another link, share it, show its terminal or its log."""

import sys
from typing import Annotated

import typer

from fairlead.cli.context import CommandContext, command
from fairlead.cli.options import SessionArg
from fairlead.cli.output import hint, raw_line
from fairlead.client.errors import UsageError
from fairlead.model.commands import Link, Reply


@command("fairlead attach 3f2a", "fairlead attach 3f2a --last 200", color=True, session=True)
async def attach(
    context: CommandContext,
    session: SessionArg,
    last: Annotated[
        int, typer.Option(min=0, max=100_000, metavar="N", help="Number of past events to show first.")
    ] = 50,
) -> None:
    """Follow a session live. On a terminal, your input goes to the session, and you answer its requests here.

    Ctrl-D leaves, and the session continues. Ctrl-C interrupts a running turn; a second Ctrl-C leaves without waiting
    for its end, and so does the first one if no turn runs.
    """
    from fairlead.cli.chat_loop import ChatLoop, RunOptions
    from fairlead.cli.render import EventRenderer
    from fairlead.client.watch import read_line
    from fairlead.model import events as ev

    async with context.api() as api:
        view = await api.session(await api.find_session(session)).view()
        terminal = not context.json and sys.stdin.isatty() and sys.stdout.isatty()
        options = RunOptions(json=context.json, ask=terminal, chat=terminal, wait=True, cwd=view.summary.cwd)
        chat = ChatLoop(api, view, context.printer(), EventRenderer(), options)
        lines = [read_line(raw, view.log_id) for raw in await api.history(view.summary.session, last)]
        for line in lines:
            chat.show(line)
        shown = {getattr(line.event, "request", None) for line in lines}
        for waiting in view.pending:
            event = ev.decode(bytes(waiting.event))
            if getattr(event, "request", None) not in shown:
                chat.show_pending(event)
        if terminal:
            hint("— your input goes to the session; Ctrl-D leaves it")
        # From the last event shown, not from the head: the deltas of a block in progress are sent again.
        await chat.attach(lines[-1].seq if lines else view.head, view.log_id)


@command(
    'fairlead send 3f2a "and now the docs"',
    'fairlead send 3f2a "stop at the first failure" --steer',
    'fairlead send 3f2a "once only" --id 7b0c9a52-2f6e-4c55-9d5e-0f6f0f9f1c11',
    session=True,
)
async def send(
    context: CommandContext,
    session: SessionArg,
    text: Annotated[str, typer.Argument(help="The message.")],
    steer: Annotated[bool, typer.Option("--steer", help="Send it into the running turn, not after it.")] = False,
    message: Annotated[
        str | None, typer.Option("--id", metavar="UUID", help="Id of the message: sent twice, it counts once.")
    ] = None,
) -> None:
    """Send a message; it waits for its turn while the agent works."""
    if not text.strip():
        raise UsageError("The message is empty.")
    async with context.api() as api:
        id = await api.find_session(session)
        reply = await api.session(id).send(text, message=message.lower() if message else None, steer=steer)
    verb = "Sent before" if reply.repeated else "Sent"
    if reply.data and reply.data.get("draining"):
        hint("The gateway is draining: the message is queued, and goes to the agent when the gateway is back.")
    context.print_result(reply, f"{verb} as {reply.message}. Show the session with: fairlead attach {id}")


@command(
    "fairlead hand-over 3f2a terminal",
    "fairlead hand-over 3f2a stdio --now",
    "fairlead hand-over 3f2a --withdraw",
    name="hand-over",
    session=True,
)
async def hand_over(
    context: CommandContext,
    session: SessionArg,
    link: Annotated[
        Link | None, typer.Argument(metavar="LINK", help="stdio, terminal or dial-in.", show_default=False)
    ] = None,
    now: Annotated[bool, typer.Option("--now", help="Interrupt the running turn; do not wait for its end.")] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Fail if something runs, and name it.")] = False,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="Withdraw a hand-over that waits.")] = False,
) -> None:
    """Continue a session over another link, with its history: in a terminal, or away from it.

    While a turn or background work runs, the hand-over waits for its end."""
    from fairlead.clients.native.schemas import HandOverSession

    if (link is None) is not withdraw:
        raise UsageError("Name the link (stdio, terminal or dial-in), or use --withdraw.")
    if withdraw and (now or no_wait):
        raise UsageError("--withdraw cannot be combined with --now or --no-wait.")
    async with context.api() as api:
        id = await api.find_session(session)
        path = f"/v1/sessions/{id}/hand-over"
        if link is None:
            reply = await api.call("DELETE", path, Reply)
        else:
            body = HandOverSession(link=link, when="now" if now else "turn_end", wait=not no_wait)
            reply = await api.post(path, Reply, body)
    context.print_result(reply, _outcome_text(id, reply.data))


def _outcome_text(session: str, data: dict[str, object]) -> str:
    link, waits_for = data["link"], data.get("waits_for")
    if data["state"] == "moved":
        return f"The session continues over {link}."
    if data["state"] == "there":
        return f"The session is on {link} and stays there."
    waiting = ", ".join(map(str, waits_for)) if isinstance(waits_for, list) else "the running work"
    return f"To {link} after {waiting}. Withdraw it with: fairlead hand-over {session} --withdraw"


@command("fairlead share 3f2a ann", "fairlead share 3f2a --everybody", "fairlead share 3f2a ann --remove", session=True)
async def share(
    context: CommandContext,
    session: SessionArg,
    user: Annotated[str, typer.Argument(help="The user to share it with.", show_default=False)] = "",
    everybody: Annotated[bool, typer.Option("--everybody", help="Share it with all users.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Stop sharing it.")] = False,
) -> None:
    """Let another user, or all users, see and steer one of your sessions.

    A session belongs to the user who created it. Other users do not see it unless it is shared; admins see all."""
    from fairlead.clients.native.schemas import ShareBody

    if bool(user) is everybody:
        raise UsageError("Name a user, or use --everybody.")
    async with context.api() as api:
        path = f"/v1/sessions/{await api.find_session(session)}/share"
        reply = await api.post(path, Reply, ShareBody(user=user, everybody=everybody, remove=remove))
    shared = f"The session is {'not ' if remove else ''}shared with {'everybody' if everybody else user}."
    context.print_result(reply, shared)


@command("fairlead terminal 3f2a", "fairlead terminal 3f2a --view", json=False, session=True)
async def terminal(
    context: CommandContext,
    session: SessionArg,
    view: Annotated[bool, typer.Option("--view", help="Only watch: send no keys, and do not change the size.")] = False,
) -> None:
    """Show the terminal of a session's agent in your own terminal, and type into it.

    Ctrl-] leaves; the agent continues."""
    from fairlead.cli.tty_bridge import attach

    async with context.api() as api:
        await attach(api.locate(), await api.find_session(session), view=view)


@command(
    "fairlead logs 3f2a",
    "fairlead logs 3f2a -f --json",
    "fairlead logs 3f2a --since 120 --json | jq .type",
    color=True,
    session=True,
)
async def logs(
    context: CommandContext,
    session: SessionArg,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Stay and print new events.")] = False,
    since: Annotated[int, typer.Option(min=0, metavar="SEQ", help="Only the events after this seq.")] = 0,
) -> None:
    """Print a session's events, from the first one or from a seq on."""
    from fairlead.cli.render import EventRenderer
    from fairlead.client.watch import EventLine

    printer, renderer = context.printer(), EventRenderer()

    def show(line: EventLine) -> None:
        if context.json:
            raw_line(line.raw)
        elif line.event is not None:
            printer.show(renderer.step(line.event))

    async with context.api() as api:
        id = await api.find_session(session)
        last, log_id = since, ""
        async for line in api.session(id).events(since):
            show(line)
            last, log_id = line.seq, line.log_id
        printer.fresh()
        if not follow:
            return
        async with api.session(id).stream(last, log_id) as events:
            async for item in events:
                if isinstance(item, EventLine):
                    show(item)
                else:
                    printer.fresh()
                    hint(f"— {item.text}")
