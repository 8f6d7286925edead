"""`fairlead import`: import session files of Claude Code into the gateway's logs, damaged files too."""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairlead.cli.context import CommandContext, command
from fairlead.cli.output import hint, json_line, progress_bar, size
from fairlead.client.errors import ClientError, CommandFailed, Missing, Unreachable

if TYPE_CHECKING:
    from fairlead.cli.client import Api
    from fairlead.sessions.api.transcripts import Imported


@command(
    "fairlead import",
    "fairlead import ~/.claude/projects/-home-ann-shop",
    "fairlead import broken.jsonl --json",
    name="import",
    color=True,
)
async def import_sessions(
    context: CommandContext,
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="[PATH]...", help="Files, or folders with such files. Default: all.")
    ] = None,
    archive: Annotated[
        bool | None,
        typer.Option("--archive/--no-archive", help="Keep copies of all sessions from now on. Default: ask."),
    ] = None,
) -> None:
    """Import Claude Code's own session files, to keep and search them.

    A damaged file is read as far as possible; the rest is kept unchanged and reported. You can interrupt the command
    and run it again: it imports nothing twice."""
    async with context.api() as api:
        if archive is not None:
            await _agree(api, archive)
        elif not paths:
            await _ask_once(api)
        if paths:
            bodies = [{"path": path} for path in files_below(paths)]
        else:
            bodies = [{"session": s.session} async for s in api.sessions(archived="any", state="transcript")]
        done, failed = await _import_all(api, bodies, json=context.json)
    if not context.json:
        _print_summary(context, done, failed)
    if failed:
        raise CommandFailed(f"{failed} of {len(bodies)} files were not imported; see above.")


def files_below(paths: list[str]) -> list[str]:
    """Return the named session files, and all session files in the named folders. Raises Missing."""
    found: list[str] = []
    for name in paths:
        path = Path(name).expanduser().absolute()
        if path.is_dir():
            found.extend(_in_folder(path))
        elif path.exists():
            found.append(str(path))
        else:
            raise Missing(f"The file or folder {path} does not exist.")
    return list(dict.fromkeys(found))


def _in_folder(folder: Path) -> Iterator[str]:
    """Yield the session files in a folder. Links to folders are not followed: they may form a loop. The file of a
    subagent is imported with its session."""
    for place, folders, names in os.walk(folder, onerror=lambda error: hint(f"{error.filename}: {error.strerror}")):
        folders[:] = sorted(name for name in folders if name != "subagents")
        for name in sorted(names):
            if name.endswith(".jsonl") and not name.startswith("agent-"):
                yield os.path.join(place, name)


async def _import_all(api: "Api", bodies: list[dict[str, str]], *, json: bool) -> "tuple[list[Imported], int]":
    """Import the files. Return the imported ones and the number of failures."""
    from rich.progress import MofNCompleteColumn

    from fairlead.sessions.api.transcripts import Imported

    done: list[Imported] = []
    failed = 0
    with progress_bar("Importing", MofNCompleteColumn()) as progress:
        for body in progress.track(bodies):
            try:
                imported = await api.post("/v1/transcripts/import", Imported, body)
            except asyncio.CancelledError:
                hint(f"{len(done)} of {len(bodies)} are imported. Run it again to continue: nothing is imported twice.")
                raise
            except Unreachable:
                raise
            except ClientError as error:
                failed += 1
                if json:
                    json_line({**body, "error": error.message})
                else:
                    hint(f"{body.get('path') or body['session']}: {error.message}")
                continue
            done.append(imported)
            if json:
                json_line(imported)
    return done, failed


def _print_summary(context: CommandContext, done: "list[Imported]", failed: int) -> None:
    new = sum(1 for imported in done if imported.events)
    read = size(sum(imported.bytes for imported in done))
    hint(f"{new} imported, {len(done) - new} known already or empty, {failed} failed; {read} read.")
    damage: Counter[tuple[str, str]] = Counter()
    for imported in done:
        for problem in imported.problems:
            if problem.kind != "nothing said":
                damage[problem.path, problem.kind] += problem.count
    if damage:
        rows = sorted(damage.items(), key=lambda item: item[0][0])
        context.print_table(("LINES", "DAMAGE", "FILE"), rows, lambda row: [str(row[1]), row[0][1], row[0][0]])
        hint("Fairlead keeps the unreadable lines unchanged, next to the rest.")


# --- the archive --------------------------------------------------------------------------------------------


async def _ask_once(api: "Api") -> None:
    """Ask whether to keep copies, the first time a person is at the terminal: Claude Code deletes its files after 30
    days."""
    from fairlead.sessions.api.transcripts import ArchiveView

    if not sys.stdin.isatty() or (await api.get("/v1/transcripts/archive", ArchiveView)).on is not None:
        return
    hint("Claude Code deletes its session files after 30 days. Fairlead can copy every session before that.")
    await _agree(api, typer.confirm("Keep copies from now on?", default=False, err=True))


async def _agree(api: "Api", on: bool) -> None:
    await api.call("PUT", "/v1/transcripts/archive", dict[str, Any], body={"on": on})
