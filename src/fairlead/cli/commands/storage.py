"""`fairlead storage`: the data folder and a store that several gateways share."""

from typing import TYPE_CHECKING, Annotated

import typer

from fairlead.cli.context import CommandContext, app, command, examples, run_async
from fairlead.cli.options import ConfigFile
from fairlead.cli.output import hint, progress_bar
from fairlead.client.errors import CommandFailed, UsageError

if TYPE_CHECKING:
    from fairlead.stores.nats.connection import Address
    from fairlead.stores.nats.store import NatsOptions

storage = typer.Typer(
    name="storage", help="Where sessions are stored: one machine, or a store that gateways share.", no_args_is_help=True
)
app.add_typer(storage, epilog=examples("fairlead storage move --to nats://n1,n2,n3/main", "fairlead storage verify"))

Store = Annotated[str | None, typer.Option("--store", metavar="URL", help="The store; else that of the settings.")]
Creds = Annotated[str | None, typer.Option("--store-creds", metavar="FILE", help="Credentials for the NATS servers.")]
Key = Annotated[str | None, typer.Option("--cluster-key", metavar="FILE", help="The key of the cell.")]
Node = Annotated[str | None, typer.Option("--node", metavar="NAME", help="The name of this gateway (the machine's).")]
SQLITE = "sqlite"


def _target(
    store: str | None, creds: str | None, key: str | None, node: str | None, config: ConfigFile
) -> "tuple[Address, NatsOptions]":
    """The store that the options and the settings name."""
    import os

    from fairlead import config as settings
    from fairlead.wiring.stores import nats_options

    given = {"store": store, "store_creds": creds, "cluster_key": key, "node": node}
    loaded = settings.load(os.environ, given, config).config
    if loaded.store == SQLITE:
        raise UsageError("Name the store with --store nats://HOST,HOST,HOST/CELL.")
    options = nats_options(loaded)
    from fairlead.stores.nats.connection import read_address

    return read_address(loaded.store), options


@command(
    "fairlead storage move --to nats://n1,n2,n3/main --cluster-key ~/cell.key",
    "fairlead storage move --to sqlite --store nats://n1,n2,n3/main --cluster-key ~/cell.key",
    group=storage,
    gateway=False,
)
def move(
    context: CommandContext,
    to: Annotated[str, typer.Option("--to", metavar="URL", help="nats://HOST,HOST,HOST/CELL, or sqlite.")],
    store: Store = None,
    creds: Creds = None,
    key: Key = None,
    node: Node = None,
    config: ConfigFile = None,
) -> None:
    """Move the data folder into a cell, or out of it. The gateway must not run.

    Log ids and positions stay the same, so that clients go on where they were. A move that was interrupted can be
    repeated."""
    address, options = _target(store if to == SQLITE else to, creds, key, node, config)
    from fairlead.stores.nats.moving import move_to_cell, move_to_sqlite

    folder = context.endpoint.folder()
    if to == SQLITE:
        run_async(move_to_sqlite(folder, address, options))
        context.print_result(
            {"folder": str(folder), "store": SQLITE},
            f"{folder} has everything of {address.text}, and stands alone: fairlead serve. The cell is as it was.",
        )
        return
    with progress_bar("Moving") as bar:
        task = bar.add_task("Moving", total=None)
        moved = run_async(
            move_to_cell(folder, address, options, lambda done, total: bar.update(task, completed=done, total=total))
        )
    context.print_result(
        moved,
        f"{folder} is in {address.text}: {moved.sessions} sessions, {moved.skipped} were there. Start its gateway with "
        f"--store {address.text}",
    )


@command("fairlead storage verify --store nats://n1,n2,n3/main", group=storage, gateway=False)
def verify(
    context: CommandContext,
    store: Store = None,
    creds: Creds = None,
    key: Key = None,
    config: ConfigFile = None,
) -> None:
    """Compare the logs of all gateways of a cell that run now, entry by entry."""
    address, options = _target(store, creds, key, None, config)
    from fairlead.stores.nats.verifying import verify as do_verify

    comparison = run_async(do_verify(address, options))
    for name, problem in comparison.silent.items():
        hint(f"{name} does not answer: {problem}")
    if comparison.different and not context.json:
        for session, logs in comparison.different.items():
            there = ", ".join(
                f"{name}: {'none' if log is None else f'{log.count} entries up to {log.head}'}"
                for name, log in logs.items()
            )
            hint(f"{session} differs. {there}")
    context.print_result(
        comparison, f"{len(comparison.nodes)} gateways compared, {len(comparison.different)} sessions differ."
    )
    if comparison.different:
        raise CommandFailed("Sessions differ: repeat it, since some may have been written to at that moment.")
    if not comparison.nodes:
        raise CommandFailed("No gateway of the cell answers: start one, and another to compare it with.")


@command(
    "fairlead storage mend 2f0c3c5e-7c1f-4d2a-9c46-0a4a3a1d4a11",
    "fairlead storage mend --all --store nats://n1,n2,n3/main",
    group=storage,
    gateway=False,
)
def mend(
    context: CommandContext,
    session: Annotated[str | None, typer.Argument(metavar="[SESSION]", help="The session that lost messages.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All sessions that lost messages.")] = False,
    store: Store = None,
    creds: Creds = None,
    key: Key = None,
    config: ConfigFile = None,
) -> None:
    """Publish again what the NATS servers have lost and this gateway's data folder has. The gateway must not run."""
    if (session is None) != everything:
        raise UsageError("Name a session, or use --all.")
    address, options = _target(store, creds, key, None, config)
    from fairlead.stores.nats.mending import mend as do_mend

    done = run_async(do_mend(context.endpoint.folder(), address, options, session))
    for name in done.refused:
        hint(f"{name} has other entries on the servers than here: it was left as it is.")
    context.print_result(done, f"{len(done.mended)} sessions were published again.")
    if done.refused:
        raise CommandFailed("Some sessions were left as they are.")
