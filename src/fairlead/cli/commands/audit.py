"""`fairlead audit`: who did what, and whether the record of it is whole."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

import typer

from fairlead.cli.context import CommandContext, app, command, examples, run_async
from fairlead.cli.output import hint, json_line
from fairlead.cli.sanitize import clean
from fairlead.client.errors import CommandFailed, Missing, UsageError

if TYPE_CHECKING:
    from fairlead.audit.api import AuditEntry, AuditHead

log = typer.Typer(name="audit", help="Who did what: the audit log.", no_args_is_help=True)
app.add_typer(log, epilog=examples("fairlead audit ls", "fairlead audit verify", "fairlead audit export > audit.jsonl"))

_PAGE = 500


@command(
    "fairlead audit ls",
    "fairlead audit ls --user ann --limit 20",
    "fairlead audit ls --action permission. --json",
    name="ls",
    group=log,
    color=True,
)
def audit_ls(
    context: CommandContext,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="The number of entries.")] = 50,
    user: Annotated[str, typer.Option(metavar="NAME", help="Only what this user did.")] = "",
    session: Annotated[str, typer.Option(metavar="ID", help="Only this session, also a deleted one.")] = "",
    action: Annotated[str, typer.Option(metavar="WORD", help="Only actions that begin so, such as session.")] = "",
) -> None:
    """List the latest entries, newest first. Needs the scope admin."""
    entries = run_async(_read(context, limit, {"user": user, "session": session, "action": action}))
    head = ("ENTRY", "TIME", "USER", "CREDENTIAL", "ACTION", "SESSION", "DETAILS")
    context.print_table(head, entries, _row)


async def _read(context: CommandContext, limit: int, wanted: dict[str, str]) -> "list[AuditEntry]":
    from fairlead.audit.api import AuditPage

    found: list[AuditEntry] = []
    query: dict[str, Any] = {name: value for name, value in wanted.items() if value}
    async with context.api() as api:
        while len(found) < limit:
            query["limit"] = min(limit - len(found), _PAGE)
            page = await api.get(f"/v1/audit?{urlencode(query)}", AuditPage)
            found += page.entries
            if page.next is None:
                break
            query["before"] = page.next
    return found


def _row(entry: "AuditEntry") -> list[str]:
    at = datetime.fromtimestamp(entry.at / 1000, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    about = {**({"entry": entry.of} if entry.of else {}), **entry.data}
    details = " ".join(f"{name}={value}" for name, value in about.items())
    who = f"{entry.user} (agent)" if entry.agent else entry.user
    return [str(entry.n), at, who, entry.credential, entry.action, entry.session[:8], details]


@command(
    "fairlead audit verify",
    "fairlead audit verify --archive /mnt/old-audit",
    "fairlead audit verify --head 1200:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    name="verify",
    group=log,
    gateway=False,
)
def audit_verify(
    context: CommandContext,
    archive: Annotated[
        list[Path] | None, typer.Option(metavar="DIR", help="A folder to which old files were moved; may be repeated.")
    ] = None,
    head: Annotated[
        list[str] | None,
        typer.Option(metavar="N:HASH", help="An entry that was noted elsewhere; may be repeated."),
    ] = None,
    after: Annotated[int, typer.Option(min=0, metavar="N", help="Do not check the entries up to this one.")] = 0,
) -> None:
    """Check that no entry was changed, removed or reordered. The gateway may run meanwhile.

    The exit code is 1 if there is a problem. Note the last line elsewhere: with --head it finds a log that was
    rewritten as a whole."""
    from fairlead.audit.files import FOLDER, verify

    folder = context.endpoint.folder()
    if not (folder / FOLDER).is_dir():
        raise Missing(f"{folder} has no audit log: no gateway has used it. Name another folder with --data.")
    for path in archive or ():
        if not path.is_dir():
            raise UsageError(f"--archive {path}: there is no such folder.")
    found = verify(folder, archive or (), [_parse_head(text) for text in head or ()], after)
    last = {"n": found.last.n, "hash": found.last.hash}
    if context.json:
        json_line({"ok": not found.problems, "entries": found.entries, "problems": found.problems, "head": last})
    else:
        for problem in found.problems:
            print(clean(problem))
        if not found.problems:
            hint(f"{found.entries} entries, none changed, removed or reordered. The last one is:")
            print(f"{found.last.n}:{found.last.hash}")
    if found.problems:
        raise CommandFailed("The audit log is not whole. What to do: see the page on incidents.")


def _parse_head(text: str) -> "AuditHead":
    from fairlead.audit.api import AuditHead

    number, _, digest = text.partition(":")
    if not number.isascii() or not number.isdigit() or len(digest) != 64:
        raise UsageError(f"--head {text[:100]}: N:HASH is expected, as fairlead audit verify prints it.")
    return AuditHead(int(number), digest.lower())


@command("fairlead audit export > audit.jsonl", name="export", group=log, json=False, gateway=False)
def audit_export(context: CommandContext) -> None:
    """Print all entries as JSON lines, oldest first, as they are stored. The gateway may run meanwhile."""
    from fairlead.audit.files import export

    for line in export(context.endpoint.folder()):
        sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
