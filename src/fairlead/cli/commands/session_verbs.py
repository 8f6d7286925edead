"""Commands that change one or several sessions: interrupt, close, rename, archive, fork, export, delete."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from fairlead.cli.context import CommandContext, command
from fairlead.cli.options import SessionArg, SessionArgs, Yes, confirm
from fairlead.cli.output import hint, json_line, print_text
from fairlead.client.errors import CommandFailed, UsageError
from fairlead.model.commands import Reply


@command("fairlead interrupt 3f2a", "fairlead interrupt -", session=True)
async def interrupt(context: CommandContext, session: SessionArgs) -> None:
    """Stop the running turn of a session. Its agent stays; the next message continues the conversation."""
    async with context.api() as api:
        for name in session:
            id = await api.find_session(name)
            context.print_result(await api.session(id).interrupt(), f"Interrupted {id}.")


@command("fairlead close 3f2a", session=True)
async def close(context: CommandContext, session: SessionArgs) -> None:
    """End the agent's process of a session. The next message resumes the session."""
    async with context.api() as api:
        for name in session:
            id = await api.find_session(name)
            context.print_result(await api.session(id).close(), f"Closed {id}. A message resumes it.")


@command('fairlead rename 3f2a "The flaky test"', session=True)
async def rename(
    context: CommandContext,
    session: SessionArg,
    title: Annotated[str, typer.Argument(help="The new title.")],
) -> None:
    """Give a session another title."""
    if not title.strip():
        raise UsageError("The title is empty.")
    async with context.api() as api:
        id = await api.find_session(session)
        reply = await api.call("PATCH", f"/v1/sessions/{id}", Reply, body={"title": title})
    context.print_result(reply, f"Renamed {id}.")


@command("fairlead archive 3f2a 9c01", "fairlead archive 3f2a --undo", session=True)
async def archive(
    context: CommandContext,
    session: SessionArgs,
    undo: Annotated[bool, typer.Option("--undo", help="Take sessions out of the archive.")] = False,
) -> None:
    """Archive sessions: lists leave them out, nothing is deleted."""
    async with context.api() as api:
        for name in session:
            id = await api.find_session(name)
            reply = await api.call("PATCH", f"/v1/sessions/{id}", Reply, body={"archived": not undo})
            context.print_result(reply, f"{id} is {'no longer' if undo else 'now'} archived.")


@command("fairlead fork 3f2a", 'fairlead fork 3f2a --title "Another way"', session=True)
async def fork(
    context: CommandContext,
    session: SessionArg,
    at: Annotated[
        str | None, typer.Option("--at", metavar="MESSAGE", help="Fork after the turn of this message, by its id.")
    ] = None,
    title: Annotated[str, typer.Option(metavar="TITLE", help="Title of the new session.")] = "",
) -> None:
    """Start a session that begins with the conversation of another one, and print its id."""
    from fairlead.clients.native.schemas import ForkSession

    async with context.api() as api:
        id = await api.find_session(session)
        reply = await api.post(f"/v1/sessions/{id}/fork", Reply, ForkSession(at=at, title=title))
    context.print_result(reply, f"Continue it with: fairlead attach {reply.session}", result=reply.session)


@command(
    "fairlead export 3f2a > session.jsonl",
    "fairlead export 3f2a --format html --output session.html",
    session=True,
    json=False,
)
async def export(
    context: CommandContext,
    session: SessionArg,
    format: Annotated[
        Literal["jsonl", "html"], typer.Option(metavar="FORMAT", help="jsonl: every event; html: a page to read.")
    ] = "jsonl",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this new file instead of stdout.")
    ] = None,
) -> None:
    """Write the whole log of a session: one event per line, or one HTML page."""
    target = None if output is None else output.expanduser()
    if target is not None and target.exists():
        raise UsageError(f"{target} exists already: name another file.")
    if target is None and format == "html" and sys.stdout.isatty():
        raise UsageError("A page is not for a terminal: use --output FILE.")
    async with context.api() as api:
        id = await api.find_session(session)
        chunks = api.download(f"/v1/sessions/{id}/export", format=format)
        first = await anext(chunks, b"")
        if target is None:
            sys.stdout.buffer.write(first)
            async for chunk in chunks:
                sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
            return
        with target.open("xb") as file:
            file.write(first)
            async for chunk in chunks:
                file.write(chunk)
    hint(f"Wrote {target}.")


@command("fairlead rm 3f2a", "fairlead rm 3f2a 9c01 --yes", "fairlead rm 3f2a --files", session=True)
def rm(
    context: CommandContext,
    session: SessionArgs,
    files: Annotated[
        bool, typer.Option("--files", help="Also delete the agent's own file of the session (scope admin).")
    ] = False,
    yes: Yes = False,
) -> None:
    """Delete sessions with their logs. This cannot be undone; a running agent is ended.

    The agent's own file stays unless you say --files, and its conversation can then be resumed with the agent alone."""
    from fairlead.cli.context import run_async

    found = run_async(_found(context, session))
    if not yes:
        for id, title in found:
            print_text(f"{id}  {title}") if not context.json else None
        confirm(f"Delete {'this session' if len(found) == 1 else f'these {len(found)} sessions'}?")
    failed = 0
    for id, _ in found:
        failed += not run_async(_delete(context, id, files))
    if failed:
        raise CommandFailed(f"{failed} of {len(found)} could not be deleted.")


async def _found(context: CommandContext, names: list[str]) -> list[tuple[str, str]]:
    """Find all of them before the first is deleted: - then means the same session for the whole command."""
    async with context.api() as api:
        wanted = list(dict.fromkeys([await api.find_session(name) for name in names]))
        titles = {str(one.session): one.title or one.first_prompt async for one in api.sessions(archived="any")}
    return [(id, titles.get(id, "")) for id in wanted]


async def _delete(context: CommandContext, id: str, files: bool) -> bool:
    from fairlead.client.errors import ClientError

    async with context.api() as api:
        try:
            query = {"files": "true"} if files else None
            reply = await api.call("DELETE", f"/v1/sessions/{id}", Reply, query=query)
        except ClientError as error:
            json_line({"session": id, "error": error.message}) if context.json else hint(f"{id}: {error.message}")
            return False
    context.print_result(reply, f"Deleted {id}.")
    return True
