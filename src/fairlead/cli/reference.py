"""Generator for the reference pages of the commands and the settings.

    python -m fairlead.cli.reference docs/reference

A test fails when a page differs from the output of this module.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec
import typer

from fairlead import config
from fairlead.cli.errors import MEANINGS
from fairlead.cli.main import app

_MADE = "<!-- Made by `python -m fairlead.cli.reference docs/reference`: change the code, not this page. -->"

_COMMANDS_HEAD = f"""{_MADE}

# Command line

`fairlead --help` lists the commands and `fairlead run --help` the options of one, with examples.
`fairlead --install-completion` teaches your shell to complete them, `fairlead --version` tells the version.

## Finding the gateway

`serve` and `doctor`, `config show`, `backup`, `restore` and `du` work on this machine. All others talk to a running
gateway: the one of `--url` or `FAIRLEAD_URL`, else the one that serves the data folder (`--data`, `FAIRLEAD_DATA` or
the setting). The token is that of `--token` or `FAIRLEAD_TOKEN`, else the one in the data folder, which is given to
this machine's gateway only: for another one, say a token.

A session is named by its id, or by at least four of its first characters if no other session begins with them.

## Output

What was asked for goes to stdout, what is said about it to stderr. With `--json` stdout has one JSON object a line:
events for `run`, `attach` and `logs` (each with at least `seq`, `session` and `type`), else one object per thing
listed. Colours are for terminals only and end with `NO_COLOR` or `--no-color`. What agents, tools and files say is
never interpreted: control sequences are taken out, and spelled out where you are asked to decide.

## Exit codes

| code | meaning |
|---|---|
"""

_SETTINGS_HEAD = f"""{_MADE}

# Settings

Each setting can stand in the settings file, in the environment, or, where `fairlead serve` has an option of that name,
on the command line; the later one counts. `fairlead config show` prints each with its value and where it was said.

The settings file is `~/.config/fairlead/config.toml` (under `XDG_CONFIG_HOME` if that is set), or the one that
`--config` or `FAIRLEAD_CONFIG` names. A setting that does not exist, or a value that does not fit, stops the start with
exit code 2 and a line that names it and the place where it was said.

```toml
port = 8000
roots = ["~/code", "~/notes"]
deny = ["Bash(git push:*)"]

[mcp.tickets]
command = "tickets-mcp"
args = ["--read-only"]
```

In the environment lists are separated by commas, and `true` or `false`, `yes` or `no`, `1` or `0` are the two values of
a switch; a table is written as TOML.

"""

_SETTINGS_TAIL = """
## Variables that are not settings

| variable | what it is |
|---|---|
| `FAIRLEAD_TOKEN` | of `serve`: the first admin token, instead of one that is made; else: the token to use |
| `FAIRLEAD_URL` | address of the gateway that the commands talk to |
| `FAIRLEAD_CONFIG` | the settings file |
| `NO_COLOR` | no colours, whatever it is set to |
| `VISUAL`, `EDITOR` | the editor in which the input of a tool call is changed before it is allowed |
"""


def commands() -> Iterator[tuple[str, Any]]:
    """Yield every command with its full name, in the order of the help; a group comes before its commands."""
    yield from _below("fairlead", typer.main.get_command(app))


def _below(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield name, command
    for child, found in getattr(command, "commands", {}).items():
        yield from _below(f"{name} {child}", found)


def cli_page() -> str:
    codes = "".join(f"| {int(code)} | {meaning} |\n" for code, meaning in MEANINGS.items())
    parts = [_section(name, command) for name, command in commands() if not hasattr(command, "commands")]
    return f"{_COMMANDS_HEAD}{codes}\n## Commands\n\n" + "\n".join(parts)


def _section(name: str, command: Any) -> str:
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = [param for param in command.params if param.param_type_name == "option"]
    usage = " ".join([name, *(_argument(param) for param in arguments), "[OPTIONS]"])
    rows = [f"| `{_argument(param)}` | {_cell(param.help)} |" for param in arguments]
    rows += [f"| {_option(param)} | {_cell(param.help)}{_variable(param)} |" for param in options]
    examples = command.epilog.partition("Examples:\n")[2].splitlines()
    return "\n".join(
        [
            f"### {name}",
            "",
            _flowed(command.help),
            "",
            f"    {usage}",
            "",
            "| option | what it does |",
            "|---|---|",
            *rows,
            "",
            "Examples:",
            "",
            *(f"    {line.strip()}" for line in examples),
            "",
        ]
    )


def _argument(param: Any) -> str:
    name = (param.metavar or param.name).upper()
    return name if param.required else f"[{name}]"


def _option(param: Any) -> str:
    value = f" {_value(param)}" if _value(param) else ""
    return ", ".join(f"`{opt}{value}`" for opt in sorted(param.opts, key=len, reverse=True))


def _value(param: Any) -> str:
    return "" if param.is_flag else _cell(param.metavar)


def _variable(param: Any) -> str:
    return f" Variable: `{param.envvar}`." if param.envvar else ""


def _cell(text: str | None) -> str:
    return (text or "").replace("|", "\\|")


def _flowed(text: str) -> str:
    """Join the lines of each paragraph of a docstring."""
    return "\n\n".join(" ".join(part.split()) for part in text.strip().split("\n\n"))


def settings_page() -> str:
    rows = ["| setting | default | variable | what it is |", "|---|---|---|---|"]
    for field in msgspec.structs.fields(config.Config):
        default = _default(field.name, field.default)
        variable = f"`{config.ENV_PREFIX}{field.name.upper()}`"
        about = f"{_cell(config.describe(field.name))}{_choices(field)}"
        rows.append(f"| `{field.name}` | {default} | {variable} | {about} |")
    return _SETTINGS_HEAD + "\n".join(rows) + "\n" + _SETTINGS_TAIL


def _default(name: str, value: Any) -> str:
    if name == "data":
        return "`~/.local/share/fairlead`"
    if value is msgspec.NODEFAULT or value in ("", ()):
        return "none"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _choices(field: msgspec.structs.FieldInfo) -> str:
    hint = get_args(field.type)[0]
    return f" One of: {', '.join(get_args(hint))}." if get_origin(hint) is Literal else ""


def pages() -> dict[str, str]:
    """Return the pages by file name."""
    return {"cli.md": cli_page(), "settings.md": settings_page()}


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/reference")
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
