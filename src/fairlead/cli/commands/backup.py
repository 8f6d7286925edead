"""`fairlead backup` and `fairlead restore`: save the data folder as one file, and restore it."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from fairlead.cli.endpoint import EndpointOptions, read_server_file
from fairlead.cli.errors import CommandFailed, Missing, UsageError
from fairlead.cli.options import examples

Data = Annotated[str | None, typer.Option("--data", envvar="FAIRLEAD_DATA", metavar="DIR", help="The data folder.")]


def register(app: typer.Typer) -> None:
    app.command(epilog=examples("fairlead backup ~/fairlead-monday.db"))(backup)
    app.command(
        epilog=examples(
            "fairlead restore ~/fairlead-monday.db --data ~/restored",
            "fairlead restore ~/fairlead-monday.db --force",
        )
    )(restore)


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The backup; it must not exist yet.")],
    data: Data = None,
) -> None:
    """Copy everything into one file, as of this moment. The gateway may run meanwhile."""
    from fairlead.cli.output import hint, size
    from fairlead.stores.sqlite.backup import back_up
    from fairlead.stores.sqlite.connections import DATABASE, SPILL, connect
    from fairlead.stores.sqlite.errors import translating
    from fairlead.stores.sqlite.spill import Spill

    folder = EndpointOptions(data=data).folder()
    database = folder / DATABASE
    target = file.expanduser().absolute()
    if not database.exists():
        raise Missing(f"There is nothing to back up in {folder}: no gateway has run on it. Name another with --data.")
    if not target.parent.is_dir():
        raise UsageError(f"There is no folder {target.parent}: make it first.")
    with translating(database), closing(connect(database, read_only=True)) as db:
        db.execute("select 1 from sqlite_master").fetchone()
    with _bar("Backing up") as progress:
        back_up(database, Spill(folder / SPILL, sync=False), target, progress)
    hint(f"{target} has {size(target.stat().st_size)}. It holds everything that was said: keep it private.")


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A backup made by fairlead backup.")],
    data: Data = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what the data folder holds now.")] = False,
) -> None:
    """Make the data folder what a backup holds. The gateway must not run.

    Clients that come back with an old cursor are told that the log is another one.
    """
    from fairlead.cli.output import hint
    from fairlead.stores.sqlite import restore as do_restore
    from fairlead.stores.sqlite.connections import DATABASE

    folder = EndpointOptions(data=data).folder()
    source = file.expanduser().absolute()
    if not source.is_file():
        raise Missing(f"There is no backup {source}.")
    if (folder / DATABASE).exists() and not force:
        server = read_server_file(folder)
        running = f" A gateway runs on it (pid {server.pid}): stop it first." if server else ""
        raise CommandFailed(
            f"{folder} holds sessions already: say --force to replace them, or name another folder.{running}"
        )
    with _bar("Restoring") as progress:
        do_restore(source, folder, overwrite=force, progress=progress)
    hint(f"{folder} is restored. Start it with: fairlead serve --data {folder}")


@contextmanager
def _bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on a terminal, and nothing elsewhere."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    from fairlead.cli.output import console

    target = console(err=True)
    columns = (TextColumn(title), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=target, transient=True, disable=not target.is_terminal) as progress:
        task = progress.add_task(title, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
