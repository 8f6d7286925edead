"""`fairlead ls` and `fairlead search`: list the sessions, and search their text."""

from typing import Annotated

import typer

from fairlead.cli.context import CommandContext, command
from fairlead.cli.options import SessionOption
from fairlead.cli.output import ago, console, hint, json_line, table
from fairlead.cli.sanitize import clean, one_line

SHOWN = 30
"""Number of sessions that `ls` shows without --all."""


@command("fairlead ls", "fairlead ls --all --json", 'fairlead ls --search "flaky test"', color=True, session=True)
async def ls(
    context: CommandContext,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Also archived sessions, and sessions that only Claude Code has.")
    ] = False,
    search: Annotated[str | None, typer.Option(metavar="WORDS", help="Words in the title or first prompt.")] = None,
) -> None:
    """List sessions, the latest first."""
    rows: list[list[str]] = []
    more = False
    async with context.api() as api:
        filters = {"archived": "any"} if everything else {"archived": "false", "transcripts": "false"}
        async for summary in api.sessions(q=search or "", **filters):
            if context.json:
                json_line(summary)
                continue
            if len(rows) >= SHOWN and not everything:
                more = True
                break
            state = "archived" if summary.archived else summary.state
            name = one_line(summary.title or summary.first_prompt or "(no messages yet)", 200)
            cost = f"${summary.cost_usd:.2f}" if summary.cost_usd else "-"
            line = [summary.session[:8], state, ago(summary.updated), str(summary.turns), cost, summary.agent]
            rows.append([*line, summary.cwd, name])
    if context.json:
        return
    if rows:
        head = ("ID", "STATE", "USED", "TURNS", "COST", "AGENT", "FOLDER", "TITLE")
        table(head, rows, no_color=context.no_color, spare=("AGENT", "COST", "TURNS", "FOLDER", "USED"))
        if more:
            hint("List all sessions with: fairlead ls --all")
    elif search:
        hint("No session matches.")
    else:
        hint('No sessions yet. Start one with: fairlead run "explain this repository"')
        hint("List the sessions of Claude Code with: fairlead ls --all")


@command("fairlead search sqlite", 'fairlead search "flaky test" --limit 5 --json', color=True, session=True)
async def search(
    context: CommandContext,
    words: Annotated[list[str], typer.Argument(metavar="WORDS", help="The words to find; all of them must match.")],
    limit: Annotated[int, typer.Option(min=1, max=200, metavar="N", help="Maximum number of results.")] = 20,
    session: SessionOption = None,
) -> None:
    """Search the messages and tool calls of all sessions."""
    from rich.text import Text

    from fairlead.clients.native.schemas import Hits

    async with context.api() as api:
        id = await api.find_session(session) if session else None
        found = await api.get("/v1/search", Hits, q=" ".join(words), limit=limit, session=id)
    hits = found.hits
    if found.not_searched:
        many = "1 session is" if found.not_searched == 1 else f"{found.not_searched} sessions are"
        hint(f"{many} not indexed yet and not searched; the gateway indexes them in the background.")
    if not hits and not context.json:
        hint("No results. New messages are indexed after a moment.")
    target = console(no_color=context.no_color)
    for hit in hits:
        if context.json:
            json_line(hit)
            continue
        place = f" #{hit.seq}" if hit.seq else ""
        head = Text(f"{hit.session[:8]}{place}", style="cyan")
        head.append(f"  {ago(hit.at)}  {clean(hit.title)}", style="dim")
        target.print(head)
        line = Text("  ")
        for number, part in enumerate(hit.snippet.replace("\x03", "\x02").split("\x02")):
            line.append(clean(part).replace("\n", " "), style="bold" if number % 2 else None)
        target.print(line)
