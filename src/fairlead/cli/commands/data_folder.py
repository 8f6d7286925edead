"""Commands on the data folder: `fairlead backup`, `fairlead restore`, `fairlead du` and `fairlead prune`."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairlead.cli.context import CommandContext, command
from fairlead.cli.options import Yes, confirm
from fairlead.cli.output import hint, json_line, progress_bar, size, table
from fairlead.client.endpoint import read_server_file
from fairlead.client.errors import ClientError, CommandFailed, Missing, UsageError

if TYPE_CHECKING:
    from fairlead.cli.client import Api
    from fairlead.model.store import Summary
    from fairlead.sessions.transcripts.archive import ArchiveState

_UNITS = {"h": 3600, "d": 86400, "w": 7 * 86400}
OVERSIZE = "oversize"
"""The folder of lines that were too large for a record; the name must agree with the wiring."""


@command("fairlead backup ~/fairlead-monday.db", gateway=False)
def backup(
    context: CommandContext,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The backup; the file must not exist yet.")],
) -> None:
    """Copy everything into one file, as of this moment. The gateway may run meanwhile."""
    from fairlead.stores.sqlite.backup import back_up
    from fairlead.stores.sqlite.connections import DATABASE, SPILL, connect
    from fairlead.stores.sqlite.errors import translating
    from fairlead.stores.sqlite.spill import Spill

    folder = context.endpoint.folder()
    database = folder / DATABASE
    target = file.expanduser().absolute()
    if not database.exists():
        raise Missing(f"{folder} has nothing to back up: no gateway has used it. Name another folder with --data.")
    if not target.parent.is_dir():
        raise UsageError(f"The folder {target.parent} does not exist: create it first.")
    with translating(database), closing(connect(database, read_only=True)) as db:
        db.execute("select 1 from sqlite_master").fetchone()
    with _progress_bar("Backing up") as progress:
        back_up(database, Spill(folder / SPILL, sync=False), target, progress)
    taken = target.stat().st_size
    text = f"{target} has {size(taken)}. It contains all messages of all sessions: keep it private."
    context.print_result({"file": str(target), "bytes": taken}, text)


@command(
    "fairlead restore ~/fairlead-monday.db --data ~/restored",
    "fairlead restore ~/fairlead-monday.db --force",
    gateway=False,
)
def restore(
    context: CommandContext,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A backup made by fairlead backup.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the present contents of the data folder.")] = False,
) -> None:
    """Restore the data folder from a backup. The gateway must not run.

    The log gets a new id, so that clients with an old cursor read it from its first event."""
    from fairlead.stores.sqlite import restore as do_restore
    from fairlead.stores.sqlite.connections import DATABASE

    folder = context.endpoint.folder()
    source = file.expanduser().absolute()
    if not source.is_file():
        raise Missing(f"The backup {source} does not exist.")
    if (folder / DATABASE).exists() and not force:
        server = read_server_file(folder)
        running = f" A gateway runs on it (pid {server.pid}): stop it first." if server else ""
        raise CommandFailed(f"{folder} has sessions: replace them with --force, or name another folder.{running}")
    with _progress_bar("Restoring") as progress:
        do_restore(source, folder, overwrite=force, progress=progress)
    text = f"{folder} is restored. Start it with: fairlead serve --data {folder}"
    context.print_result({"file": str(source), "data": str(folder)}, text)


@contextmanager
def _progress_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    from rich.progress import DownloadColumn

    with progress_bar(title, DownloadColumn()) as progress:
        task = progress.add_task(title, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


@command("fairlead du", "fairlead du --top 50 --json", color=True, gateway=False)
def du(
    context: CommandContext,
    top: Annotated[int, typer.Option(min=0, metavar="N", help="Number of the largest sessions to list.")] = 10,
) -> None:
    """Show the sizes in the data folder, by kind and by session."""
    folder = context.endpoint.folder()
    kinds, sessions, archive = measure(folder, top)
    if context.json:
        for name, count in kinds:
            json_line({"kind": name, "bytes": count})
        for row in sessions:
            json_line({"session": row[0], "title": row[1], "entries": row[2], "bytes": row[3]})
        json_line({"archive": len(archive.sessions), "bytes": archive.size, "limit": archive.limit})
        return
    hint(str(folder))
    table(("SIZE", "WHAT"), [[size(count), name] for name, count in kinds], no_color=context.no_color)
    if archive.sessions:
        room = f"{size(archive.size)} of at most {size(archive.limit)} (archive_bytes)"
        hint(f"{len(archive.sessions)} sessions are archived copies: {room}. The oldest are deleted first.")
    if sessions:
        print()
        rows = [[size(count), str(entries), session[:8], title] for session, title, entries, count in sessions]
        table(("SIZE", "EVENTS", "SESSION", "TITLE"), rows, no_color=context.no_color)


def measure(folder: Path, top: int) -> "tuple[list[tuple[str, int]], list[tuple[str, str, int, int]], ArchiveState]":
    """Return (kind, bytes) and (session, title, entries, bytes), largest first, and the state of the archive without
    sessions that were deleted meanwhile. Raises Missing."""
    import msgspec

    from fairlead.sessions.transcripts.archive import ARCHIVE, ArchiveState
    from fairlead.stores.sqlite.connections import DATABASE, SEARCH, SPILL, connect
    from fairlead.stores.sqlite.errors import translating
    from fairlead.stores.transcript_texts import FILE as TRANSCRIPT_SEARCH
    from fairlead.transcripts.database import FILE as TRANSCRIPTS
    from fairlead.uploads.service import FOLDER as UPLOADS

    database = folder / DATABASE
    if not database.exists():
        raise Missing(f"{folder} has no sessions: no gateway has used it. Name another folder with --data.")
    with translating(database), closing(connect(database, read_only=True)) as db:
        (free,), (page,) = (db.execute(f"pragma {name}").fetchone() for name in ("freelist_count", "page_size"))
        sessions = db.execute(
            "select l.session, coalesce(nullif(s.title, ''), s.first_prompt, ''), count(*),"
            " sum(coalesce(length(cast(e.event as blob)), 0) + coalesce(length(cast(e.raw as blob)), 0)) as bytes"
            " from entries e join logs l on l.id = e.log left join sessions s on s.session = l.session"
            " where l.session is not null group by l.id order by bytes desc limit ?",
            (top,),
        ).fetchall()
        stored = db.execute("select value from documents where space = ? and key = ?", (ARCHIVE, ARCHIVE)).fetchone()
        deleted = {name for (name,) in db.execute("select session from sessions where deleted = 1")}
    archive = msgspec.json.decode(stored[0], type=ArchiveState) if stored is not None else ArchiveState()
    kept = {name: size for name, size in archive.sessions.items() if name not in deleted}
    kinds = [
        ("sessions (fairlead.db)", _bytes(folder, DATABASE) - free * page),
        ("free space (fairlead.db)", free * page),
        ("search index", _bytes(folder, SEARCH)),
        ("search index of transcripts", _bytes(folder, TRANSCRIPT_SEARCH)),
        ("large records", sum(_below(folder / name) for name in (SPILL, OVERSIZE))),
        ("uploads", _below(folder / UPLOADS)),
        ("stored transcripts", _bytes(folder, TRANSCRIPTS)),
    ]
    used = [(name, max(0, count)) for name, count in kinds]
    return used, [tuple(row) for row in sessions], ArchiveState(archive.limit, kept)


def _below(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _bytes(folder: Path, name: str) -> int:
    files = (folder / f"{name}{end}" for end in ("", "-wal", "-shm"))
    return sum(file.stat().st_size for file in files if file.exists())


@command(
    "fairlead prune --older-than 30d --dry-run",
    "fairlead prune --older-than 12w --archived-only",
    "fairlead prune --before 2025-01-31 --yes",
    color=True,
)
async def prune(
    context: CommandContext,
    before: Annotated[str | None, typer.Option(metavar="DATE", help="Last used before this day, 2025-01-31.")] = None,
    older_than: Annotated[str | None, typer.Option(metavar="AGE", help="Not used for this time: 12h, 30d, 8w.")] = None,
    archived_only: Annotated[bool, typer.Option("--archived-only", help="Only archived sessions.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the sessions.")] = False,
    yes: Yes = False,
) -> None:
    """Delete sessions that were not used for a long time. This cannot be undone. The agents' own files stay."""
    limit = cutoff(before, older_than, time.time())
    async with context.api() as api:
        # A session that works or waits is in use, however long ago its last event was.
        found = [
            summary
            async for summary in api.sessions(archived="true" if archived_only else "any")
            if summary.updated < limit and summary.state == "idle"
        ]
        if not found:
            hint("No session is that old.")
            return
        if not context.json:
            rows = [[s.session[:8], _day(s.updated), s.title or s.first_prompt] for s in found]
            table(("ID", "USED", "TITLE"), rows, no_color=context.no_color)
        if dry_run:
            for summary in found if context.json else ():
                json_line({"session": summary.session, "deleted": False})
            hint(f"{len(found)} would be deleted.")
            return
        if not yes:
            confirm(f"Delete {len(found)} session{'s' if len(found) > 1 else ''} permanently?")
        done = await _delete(api, found, json=context.json)
        hint(f"{done} deleted.")
        if done < len(found):
            raise CommandFailed(f"{len(found) - done} could not be deleted; see above.")


def cutoff(before: str | None, older_than: str | None, now: float) -> int:
    """Return the time in milliseconds since 1970 before which a session is old. Raises UsageError."""
    if (before is None) == (older_than is None):
        raise UsageError("Choose the sessions with --older-than 30d or --before 2025-01-31.")
    if older_than is not None:
        match = re.fullmatch(r"(\d{1,5})([hdw])", older_than.strip().lower())
        if match is None:
            raise UsageError(f"--older-than {older_than[:40]!r} is not an age: 12h, 30d or 8w are.")
        return int((now - int(match[1]) * _UNITS[match[2]]) * 1000)
    try:
        day = datetime.fromisoformat(before or "")
    except ValueError:
        raise UsageError(f"--before {str(before)[:40]!r} is not a date: 2025-01-31 is one.") from None
    moment = day.timestamp() if day.tzinfo else day.astimezone().timestamp()
    if moment > now:
        raise UsageError(f"--before {before} is in the future.")
    return int(moment * 1000)


async def _delete(api: "Api", found: "list[Summary]", *, json: bool) -> int:
    from rich.progress import MofNCompleteColumn

    done = 0
    with progress_bar("Deleting", MofNCompleteColumn()) as progress:
        for summary in progress.track(found):
            try:
                await api.call("DELETE", f"/v1/sessions/{summary.session}", dict[str, Any])
            except ClientError as error:
                hint(f"{summary.session}: {error.message}")
                continue
            done += 1
            if json:
                json_line({"session": summary.session, "deleted": True})
    return done


def _day(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d")
