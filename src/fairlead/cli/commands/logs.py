"""`fairlead logs`: print a session's log from a sequence number on."""

from contextlib import aclosing
from typing import Annotated

import typer

from fairlead.cli.context import CommandContext, command
from fairlead.cli.options import SessionArg
from fairlead.cli.output import hint, raw_line


@command(
    "fairlead logs 3f2a", "fairlead logs 3f2a -f --json", "fairlead logs 3f2a --since 120 --json | jq .type", color=True
)
async def logs(
    context: CommandContext,
    session: SessionArg,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Stay and print new events.")] = False,
    since: Annotated[int, typer.Option(min=0, metavar="SEQ", help="Only the events after this seq.")] = 0,
) -> None:
    """Print a session's events, from the first one or from a seq on."""
    from fairlead.cli.client import EventLine, SessionWatch
    from fairlead.cli.render import EventRenderer

    printer, renderer = context.printer(), EventRenderer()

    def show(line: EventLine) -> None:
        if context.json:
            raw_line(line.raw)
        elif line.event is not None:
            printer.show(renderer.step(line.event))

    async with context.api() as api:
        id = await api.session(session)
        last, log_id = since, ""
        async for line in api.events(id, since):
            show(line)
            last, log_id = line.seq, line.log_id
        printer.fresh()
        if not follow:
            return
        async with aclosing(SessionWatch(api.locate, id, last, log_id).items()) as events:
            async for item in events:
                if isinstance(item, EventLine):
                    show(item)
                else:
                    printer.fresh()
                    hint(f"— {item.text}")
