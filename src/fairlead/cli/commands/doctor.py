"""`fairlead doctor`: check the set-up and explain how to correct it."""

from pathlib import Path
from typing import Annotated

import typer

from fairlead.cli.errors import ExitCode
from fairlead.cli.options import Data, Json, NoColor, Token, Url, environment, examples, run_async


def register(app: typer.Typer) -> None:
    app.command(epilog=examples("fairlead doctor", "fairlead doctor --json", "fairlead doctor --scripts"))(doctor)


def doctor(
    scripts: Annotated[bool, typer.Option("--scripts", help="List the demo agent's scripts instead.")] = False,
    config: Annotated[
        Path | None, typer.Option(envvar="FAIRLEAD_CONFIG", metavar="FILE", help="Settings file, TOML.")
    ] = None,
    json: Json = False,
    no_color: NoColor = False,
    url: Url = None,
    token: Token = None,
    data: Data = None,
) -> None:
    """Check the set-up: which Claude Code is installed and how it can be driven, the data folder, the port.

    Each line is ok, warn or bad, and says what to do. The exit code is 1 if something is bad.
    """
    from fairlead.cli.output import json_line

    if scripts:
        _scripts(json=json, no_color=no_color)
        return
    from rich.text import Text

    from fairlead.cli.doctor_checks import examine
    from fairlead.cli.endpoint import EndpointOptions
    from fairlead.cli.output import console
    from fairlead.cli.sanitize import clean

    findings = run_async(examine(EndpointOptions(url, token, data), config, environment()))
    target = console(no_color=no_color)
    styles = {"ok": "green", "warn": "yellow", "bad": "red"}
    for finding in findings:
        if json:
            json_line(finding)
            continue
        line = Text(f"{finding.level:<5}", style=styles[finding.level])
        line.append(f"{finding.what}: ", style="bold")
        line.append(clean(finding.found))
        target.print(line)
        if finding.todo:
            target.print(Text(f"     -> {clean(finding.todo)}"))
    if any(finding.level == "bad" for finding in findings):
        raise typer.Exit(ExitCode.FAILED)


def _scripts(*, json: bool, no_color: bool) -> None:
    from fairlead.agents.demo.scripts import catalogue
    from fairlead.cli.output import hint, json_line, table

    if json:
        for name, argument, about in catalogue():
            json_line({"name": name, "argument": argument, "about": about})
        return
    rows = [[f"SCRIPT:{name} {argument}".rstrip(), about] for name, argument, about in catalogue()]
    table(("PROMPT", "WHAT IT SHOWS"), rows, no_color=no_color)
    hint('Try one with: fairlead run "SCRIPT:tool" --agent demo')
