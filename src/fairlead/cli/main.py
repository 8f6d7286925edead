"""The entry point: registers the commands, and turns a failure into a message and an exit code.

Rule: nothing of the server is imported here, so that `fairlead --help` is quick.
"""

import os
import select
import sys
from importlib import import_module
from typing import Annotated, NoReturn

import typer

from fairlead.cli.context import app, examples, sessions
from fairlead.cli.errors import ExitCode, exit_code, from_error
from fairlead.cli.output import hint
from fairlead.client.errors import ClientError, CommandFailed
from fairlead.model.errors import FairleadError

__all__ = ["app", "main"]

MODULES = (
    *("serve", "stop", "run", "ls", "session", "session_verbs", "permit", "trust", "plugins", "accounts", "audit"),
    *("service", "keeper", "nodes", "imports", "data_folder", "storage", "configuration", "agents", "shim", "acp"),
    *("doctor", "hook", "mcp"),
)
"""The modules that define the commands, in the order of the help."""
for module in MODULES:
    import_module(f"fairlead.cli.commands.{module}")
app.add_typer(sessions, epilog=examples("fairlead session ls", 'fairlead session rename 3f2a "The parser"'))


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"fairlead {version('fairlead')}")
        raise typer.Exit()


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    pass


def main() -> None:
    # A character that the terminal's encoding lacks must not end a command.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        app(prog_name="fairlead")
    except ClientError as error:
        _end(error)
    except FairleadError as error:
        _end(from_error(error))
    except BrokenPipeError:
        if not _output_is_closed():
            _end(CommandFailed("The connection to the gateway broke. Is it still running?"))
        # Python must not try to write the rest at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(ExitCode.FAILED)
    except OSError as error:
        _end(CommandFailed(f"{error.filename or 'A file'} cannot be used: {error.strerror or error}."))


def _output_is_closed() -> bool:
    """Return whether the reader of our output has closed the pipe. A socket breaks with the same error."""
    try:
        output = select.poll()
        output.register(sys.stdout, 0)
        return bool(output.poll(0))
    except (OSError, ValueError):
        return False


def _end(error: ClientError) -> NoReturn:
    hint(f"fairlead: {error.message}")
    sys.exit(exit_code(error))
