"""`fairlead doctor`: check the set-up and explain how to correct it."""

import os
from typing import Annotated

import typer

from fairlead.cli.context import CommandContext, command, run_async
from fairlead.cli.errors import ExitCode
from fairlead.cli.options import ConfigFile
from fairlead.cli.output import console, hint, json_line
from fairlead.cli.sanitize import clean


@command("fairlead doctor", "fairlead doctor --json", "fairlead doctor --scripts", color=True)
def doctor(
    context: CommandContext,
    scripts: Annotated[bool, typer.Option("--scripts", help="List the demo agent's scripts instead.")] = False,
    config: ConfigFile = None,
) -> None:
    """Check the set-up: Claude Code and its links, the sandbox, the data folder, the port.

    Each line is ok, warn or bad, and explains what to do. The exit code is 1 if a line is bad.
    """
    if scripts:
        _print_scripts(context)
        return
    from rich.text import Text

    from fairlead.cli.doctor_checks import examine

    findings = run_async(examine(context.endpoint, config, os.environ))
    target = console(no_color=context.no_color)
    styles = {"ok": "green", "warn": "yellow", "bad": "red"}
    for finding in findings:
        if context.json:
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


def _print_scripts(context: CommandContext) -> None:
    from fairlead.agents.demo.scripts import catalogue

    scripts = [{"name": name, "argument": argument, "about": about} for name, argument, about in catalogue()]
    context.print_table(
        ("PROMPT", "WHAT IT SHOWS"),
        scripts,
        lambda script: [f"SCRIPT:{script['name']} {script['argument']}".rstrip(), script["about"]],
    )
    if not context.json:
        hint('Try one with: fairlead run "SCRIPT:tool" --agent demo')
