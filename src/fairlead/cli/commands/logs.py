"""`fairlead logs`: print a session's log from a sequence number on."""

from contextlib import aclosing
from typing import Annotated

import typer

from fairlead.cli.endpoint import EndpointOptions
from fairlead.cli.options import Data, Json, NoColor, SessionArg, Token, Url, examples, run_async


def register(app: typer.Typer) -> None:
    app.command(
        epilog=examples(
            "fairlead logs 3f2a",
            "fairlead logs 3f2a -f --json",
            "fairlead logs 3f2a --since 120 --json | jq .type",
        )
    )(logs)


def logs(
    session: SessionArg,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Stay and print what comes.")] = False,
    since: Annotated[int, typer.Option(min=0, metavar="SEQ", help="Only what comes after this seq.")] = 0,
    json: Json = False,
    no_color: NoColor = False,
    url: Url = None,
    token: Token = None,
    data: Data = None,
) -> None:
    """Print a session's events, from the first one or from a place on."""
    run_async(_logs(EndpointOptions(url, token, data), session, since, follow=follow, json=json, no_color=no_color))


async def _logs(wanted: EndpointOptions, name: str, since: int, *, follow: bool, json: bool, no_color: bool) -> None:
    from fairlead.cli.client import Api, EventLine, SessionWatch
    from fairlead.cli.output import Printer, console, hint, raw_line
    from fairlead.cli.render import EventRenderer

    printer, renderer = Printer(console(no_color=no_color)), EventRenderer()

    def show(line: EventLine) -> None:
        if json:
            raw_line(line.raw)
        elif line.event is not None:
            printer.show(renderer.step(line.event))

    async with Api(wanted.find) as api:
        session = await api.session(name)
        last, log_id = since, ""
        async for line in api.events(session, since):
            show(line)
            last, log_id = line.seq, line.log_id
        printer.fresh()
        if not follow:
            return
        async with aclosing(SessionWatch(api.locate, session, last, log_id).items()) as events:
            async for item in events:
                if isinstance(item, EventLine):
                    show(item)
                else:
                    printer.fresh()
                    hint(f"— {item.text}")
