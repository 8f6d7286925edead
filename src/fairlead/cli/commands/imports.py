"""`fairlead import`: import session files of Claude Code into the gateway's logs, damaged files too."""

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairlead.cli.endpoint import EndpointOptions
from fairlead.cli.errors import CliError, CommandFailed, Missing, Unreachable
from fairlead.cli.options import Data, Json, NoColor, Token, Url, examples, run_async

if TYPE_CHECKING:
    from fairlead.cli.client import Api
    from fairlead.sessions.api.transcripts import Imported


def register(app: typer.Typer) -> None:
    app.command(
        "import",
        epilog=examples(
            "fairlead import",
            "fairlead import ~/.claude/projects/-home-ann-shop",
            "fairlead import broken.jsonl --json",
        ),
    )(import_sessions)


def import_sessions(
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="[PATH]...", help="Files, or folders with such files. None: all.")
    ] = None,
    archive: Annotated[
        bool | None,
        typer.Option(
            "--archive/--no-archive", help="Keep copies of all sessions from now on; without it you are asked."
        ),
    ] = None,
    json: Json = False,
    no_color: NoColor = False,
    url: Url = None,
    token: Token = None,
    data: Data = None,
) -> None:
    """Read Claude Code's own session files into the gateway, so that they are kept and can be searched.

    What is damaged is read as far as it can be; the rest is kept as it is and reported. It can be interrupted and
    called again: nothing is imported twice.
    """
    run_async(_import(EndpointOptions(url, token, data), paths or [], archive, json=json, no_color=no_color))


async def _import(
    wanted: EndpointOptions, paths: list[str], archive: bool | None, *, json: bool, no_color: bool
) -> None:
    from fairlead.cli.client import Api

    async with Api(wanted.find) as api:
        if archive is not None:
            await _agree(api, archive)
        elif not paths:
            await _ask_once(api)
        bodies = await _listed(api) if not paths else [{"path": path} for path in files_below(paths)]
        done, failed = await _bring_in_all(api, bodies, json=json)
    _print_summary(done, failed, json=json, no_color=no_color)
    if failed:
        raise CommandFailed(f"{len(failed)} of {len(bodies)} could not be imported; see above.")


async def _listed(api: "Api") -> list[dict[str, str]]:
    return [{"session": s.session} async for s in api.sessions(archived="any", state="transcript")]


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
            raise Missing(f"There is no file or folder {path}.")
    return list(dict.fromkeys(found))


def _in_folder(folder: Path) -> Iterator[str]:
    """Yield the session files in a folder. Links to folders are not followed: they may form a loop. The file of a
    subagent is imported with its session."""
    for place, folders, names in os.walk(folder, onerror=_unreadable):
        folders[:] = sorted(name for name in folders if name != "subagents")
        for name in sorted(names):
            if name.endswith(".jsonl") and not name.startswith("agent-"):
                yield os.path.join(place, name)


def _unreadable(error: OSError) -> None:
    from fairlead.cli.output import hint

    hint(f"{error.filename}: {error.strerror}")


async def _bring_in_all(api: "Api", bodies: list[dict[str, str]], *, json: bool) -> "tuple[list[Imported], list[str]]":
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from fairlead.cli.output import console, hint, json_line
    from fairlead.sessions.api.transcripts import Imported

    target = console(err=True)
    done: list[Imported] = []
    failed: list[str] = []
    columns: tuple[Any, ...] = (TextColumn("Importing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=target, transient=True, disable=not target.is_terminal) as progress:
        for body in progress.track(bodies):
            try:
                imported = await api.post("/v1/transcripts/import", Imported, body)
            except asyncio.CancelledError:
                hint(f"{len(done)} of {len(bodies)} are imported. Call it again to go on: nothing is imported twice.")
                raise
            except Unreachable:
                raise
            except CliError as error:
                name = body.get("path") or body["session"]
                failed.append(name)
                if json:
                    json_line({**body, "error": error.message})
                else:
                    hint(f"{name}: {error.message}")
                continue
            done.append(imported)
            if json:
                json_line(imported)
    return done, failed


def _print_summary(done: "list[Imported]", failed: list[str], *, json: bool, no_color: bool) -> None:
    from fairlead.cli.output import hint, size, table

    if json:
        return
    new = sum(1 for imported in done if imported.events)
    read = size(sum(imported.bytes for imported in done))
    hint(f"{new} imported, {len(done) - new} were here already or say nothing, {len(failed)} failed; {read} read.")
    damage: dict[tuple[str, str], int] = {}
    for imported in done:
        for problem in imported.problems:
            if problem.kind != "nothing said":
                key = (problem.kind, problem.path)
                damage[key] = damage.get(key, 0) + problem.count
    if damage:
        rows = [[str(count), kind, path] for (kind, path), count in sorted(damage.items(), key=lambda item: item[0][1])]
        table(("LINES", "DAMAGE", "FILE"), rows, no_color=no_color)
        hint("What could not be read is kept as it is, beside the rest.")


# --- the archive --------------------------------------------------------------------------------------------


async def _ask_once(api: "Api") -> None:
    """Ask whether to keep copies, the first time a person is at the terminal: Claude Code deletes its files after 30
    days."""
    from fairlead.cli.output import hint
    from fairlead.sessions.api.transcripts import ArchiveView

    if not sys.stdin.isatty() or (await api.get("/v1/transcripts/archive", ArchiveView)).on is not None:
        return
    hint("Claude Code deletes its session files after 30 days. Fairlead can copy every session before that, by itself.")
    await _agree(api, typer.confirm("Keep copies from now on?", default=False, err=True))


async def _agree(api: "Api", on: bool) -> None:
    from fairlead.sessions.api.transcripts import ArchiveView

    await api.call("PUT", "/v1/transcripts/archive", ArchiveView, body={"on": on})
