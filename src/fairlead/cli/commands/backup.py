"""`fairlead backup` and `fairlead restore`: save the data folder as one file, and restore it."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from fairlead.cli.context import CommandContext, command
from fairlead.cli.endpoint import read_server_file
from fairlead.cli.errors import CommandFailed, Missing, UsageError
from fairlead.cli.output import hint, progress_bar, size


@command("fairlead backup ~/fairlead-monday.db", json=False, gateway=False)
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
    hint(f"{target} has {size(target.stat().st_size)}. It contains all messages of all sessions: keep it private.")


@command(
    "fairlead restore ~/fairlead-monday.db --data ~/restored",
    "fairlead restore ~/fairlead-monday.db --force",
    json=False,
    gateway=False,
)
def restore(
    context: CommandContext,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A backup made by fairlead backup.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the present contents of the data folder.")] = False,
) -> None:
    """Restore the data folder from a backup. The gateway must not run.

    The log gets a new id, so that clients with an old cursor read it from its first event.
    """
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
    hint(f"{folder} is restored. Start it with: fairlead serve --data {folder}")


@contextmanager
def _progress_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    from rich.progress import DownloadColumn

    with progress_bar(title, DownloadColumn()) as progress:
        task = progress.add_task(title, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
