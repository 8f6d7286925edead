"""`fairlead ls` and `fairlead search`: list the sessions, and search their text."""

from typing import Annotated

import typer

from fairlead.cli.endpoint import EndpointOptions
from fairlead.cli.options import Data, Json, NoColor, Token, Url, examples, run_async

SHOWN = 30
"""Number of sessions that `ls` shows without --all."""


def register(app: typer.Typer) -> None:
    app.command(epilog=examples("fairlead ls", "fairlead ls --all --json", 'fairlead ls --search "flaky test"'))(ls)
    app.command(epilog=examples("fairlead search sqlite", 'fairlead search "flaky test" --limit 5 --json'))(search)


def ls(
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="All of them: archived ones, and those that only Claude Code knows.")
    ] = False,
    search: Annotated[str | None, typer.Option(metavar="WORDS", help="Words in the title or first prompt.")] = None,
    json: Json = False,
    no_color: NoColor = False,
    url: Url = None,
    token: Token = None,
    data: Data = None,
) -> None:
    """List sessions, the latest first."""
    run_async(_ls(EndpointOptions(url, token, data), search or "", everything=everything, json=json, no_color=no_color))


async def _ls(wanted: EndpointOptions, words: str, *, everything: bool, json: bool, no_color: bool) -> None:
    from fairlead.cli.client import Api
    from fairlead.cli.output import ago, hint, json_line, table
    from fairlead.cli.sanitize import one_line

    rows: list[list[str]] = []
    more = False
    async with Api(wanted.find) as api:
        wanted_state = {"archived": "any"} if everything else {"archived": "false", "transcripts": "false"}
        async for summary in api.sessions(q=words, **wanted_state):
            if json:
                json_line(summary)
                continue
            if len(rows) >= SHOWN and not everything:
                more = True
                break
            state = "archived" if summary.archived else summary.state
            name = one_line(summary.title or summary.first_prompt or "(nothing said yet)", 200)
            cost = f"${summary.cost_usd:.2f}" if summary.cost_usd else "-"
            line = [summary.session[:8], state, ago(summary.updated), str(summary.turns), cost, summary.agent]
            rows.append([*line, summary.cwd, name])
    if json:
        return
    if not rows:
        if words:
            hint("None found.")
        else:
            hint('No sessions yet. Start one with: fairlead run "explain this repository"')
            hint("Those that Claude Code has written down are shown by: fairlead ls --all")
        return
    table(("ID", "STATE", "USED", "TURNS", "COST", "AGENT", "FOLDER", "TITLE"), rows, no_color=no_color)
    if more:
        hint("There are more: fairlead ls --all")


def search(
    words: Annotated[list[str], typer.Argument(metavar="WORDS", help="What to look for; all of them must be there.")],
    limit: Annotated[int, typer.Option(min=1, max=200, metavar="N", help="At most so many.")] = 20,
    session: Annotated[str | None, typer.Option(metavar="ID", help="Only in this session.")] = None,
    json: Json = False,
    no_color: NoColor = False,
    url: Url = None,
    token: Token = None,
    data: Data = None,
) -> None:
    """Search the messages and tool calls of all sessions."""
    wanted = EndpointOptions(url, token, data)
    run_async(_search(wanted, " ".join(words), limit, session, json=json, no_color=no_color))


async def _search(
    wanted: EndpointOptions, words: str, limit: int, name: str | None, *, json: bool, no_color: bool
) -> None:
    from rich.text import Text

    from fairlead.cli.client import Api
    from fairlead.cli.output import ago, console, hint, json_line
    from fairlead.cli.sanitize import clean
    from fairlead.clients.native.schemas import Hits

    async with Api(wanted.find) as api:
        session = await api.session(name) if name else None
        hits = (await api.get("/v1/search", Hits, q=words, limit=limit, session=session)).hits
    if json:
        for hit in hits:
            json_line(hit)
        return
    if not hits:
        hint("Nothing was found. What was said a moment ago may not be indexed yet.")
        return
    target = console(no_color=no_color)
    for hit in hits:
        head = Text(f"{hit.session[:8]} #{hit.seq}", style="cyan")
        head.append(f"  {ago(hit.at)}  {clean(hit.title)}", style="dim")
        target.print(head)
        line = Text("  ")
        for number, part in enumerate(hit.snippet.replace("\x03", "\x02").split("\x02")):
            line.append(clean(part).replace("\n", " "), style="bold" if number % 2 else None)
        target.print(line)
