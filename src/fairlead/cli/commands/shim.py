"""`fairlead claude`, `fairlead wrap` and `fairlead shim install`: Claude Code for other programs, as a session here."""

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from fairlead.cli.context import app, examples
from fairlead.cli.options import Json
from fairlead.cli.output import hint, json_line, print_text
from fairlead.client.errors import UsageError

_ANY_ARGUMENTS: Final = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
"""Every argument is for Claude Code, --help too."""

SETTINGS: Final = (
    ("VS Code extension", '"claudeCode.claudeProcessWrapper": "{wrapper}"'),
    ("Python Agent SDK", 'ClaudeAgentOptions(cli_path="{cli}")'),
    ("TypeScript Agent SDK", 'pathToClaudeCodeExecutable: "{cli}"'),
    ("Zed and other ACP editors", "CLAUDE_CODE_EXECUTABLE={cli}"),
    ("claudecodeui", "CLAUDE_CLI_PATH={cli}"),
    ("background sessions", "CLAUDE_CODE_PROCESS_WRAPPER={wrapper}"),
    ("scripts and cron jobs", 'PATH="{folder}:$PATH"'),
)
"""How each program is told to start the shim."""


@app.command(
    context_settings=_ANY_ARGUMENTS,
    epilog=examples(
        "fairlead claude -p --input-format stream-json --output-format stream-json --verbose",
        "FAIRLEAD_SHIM=require fairlead claude -p --input-format stream-json --output-format stream-json --verbose",
    ),
)
def claude(context: typer.Context) -> None:
    """Run Claude Code with these arguments, as a session of the gateway if another program talks to it (stream-json).

    Every client then sees the session and can answer its requests. Without a gateway, and for all other arguments,
    Claude Code runs as it would alone; FAIRLEAD_SHIM=require makes a missing gateway an error."""
    from fairlead.cli.shim.entry import run_shim

    run_shim((), context.args)


@app.command(
    context_settings=_ANY_ARGUMENTS,
    epilog=examples(
        "fairlead wrap /usr/local/bin/claude -p --input-format stream-json --output-format stream-json --verbose",
        "fairlead wrap ~/node_modules/.bin/claude --version",
    ),
)
def wrap(context: typer.Context) -> None:
    """Like fairlead claude, for programs that call a wrapper with the command of Claude Code and its arguments."""
    from fairlead.cli.shim.entry import run_shim
    from fairlead.cli.shim.invocation import split_wrapped

    if context.args[:1] in (["--help"], ["-h"]):
        typer.echo(context.get_help())
        return
    if not context.args or context.args[0].startswith("-"):
        raise UsageError("Give the command to wrap: fairlead wrap /usr/local/bin/claude ARGS")
    run_shim(*split_wrapped(context.args))


shim = typer.Typer(name="shim", help="The shim by which other programs run Claude Code through the gateway.")
app.add_typer(shim, epilog=examples("fairlead shim install", "fairlead shim install --path ~/bin"))


@shim.command(
    epilog=examples("fairlead shim install", "fairlead shim install --path ~/shims", "fairlead shim install --vscode")
)
def install(
    path: Annotated[
        Path | None, typer.Option(help="Folder of the executables. Default: shim in fairlead's data folder.")
    ] = None,
    vscode: Annotated[bool, typer.Option("--vscode", help="Print only the setting of VS Code.")] = False,
    json: Json = False,
) -> None:
    """Write the executables claude and claude-wrapper, and print the setting that makes each program use them."""
    from fairlead.system.user_folders import default_data

    folder = (path or default_data(os.environ) / "shim").expanduser().absolute()
    cli, wrapper = folder / "claude", folder / "claude-wrapper"
    for file, form in ((cli, "claude"), (wrapper, "wrap")):
        _write(file, form)
    hint(f"Wrote {cli} and {wrapper}.")
    for name, setting in SETTINGS[:1] if vscode else SETTINGS:
        value = setting.format(cli=cli, wrapper=wrapper, folder=folder)
        json_line({"program": name, "setting": value}) if json else print_text(f"{name + ':':27} {value}")


def _write(file: Path, form: str) -> None:
    from fairlead.cli.shim.real_cli import MARK, is_shim

    if file.exists() and not is_shim(str(file)):
        raise UsageError(f"{file} exists and is not the shim: choose another folder with --path.")
    file.parent.mkdir(parents=True, exist_ok=True)
    # -P: a module in the folder where the program is called must not be imported instead of ours.
    command = shlex.join([sys.executable, "-P", "-m", "fairlead.cli.shim", form])
    file.write_text(f'#!/bin/sh\n{MARK}\nexec {command} "$@"\n', encoding="utf-8")
    file.chmod(0o755)
