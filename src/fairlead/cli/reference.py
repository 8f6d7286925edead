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

`fairlead --help` lists the commands, and `fairlead run --help` the options of one command, with examples.
`fairlead --install-completion` installs completion in your shell. `fairlead --version` prints the version.

## Finding the gateway

`serve` and `doctor`, `config show`, `backup`, `restore` and `du` work on this machine. All other commands need a
running gateway: the gateway of `--url` or `FAIRLEAD_URL`, otherwise the gateway that serves the data folder (`--data`,
`FAIRLEAD_DATA` or the setting). The token is the value of `--token` or `FAIRLEAD_TOKEN`, otherwise the token in the
data folder, which is sent only to the gateway on this machine: any other gateway needs an explicit token.

A session is named by its id, or by at least four of its first characters if no other session begins with them.

## Output

Results go to stdout, messages about them to stderr. With `--json`, stdout has one JSON object per line: events for
`run`, `attach` and `logs` (each with at least `seq`, `session` and `type`), otherwise one object per listed item.
Colours appear only on terminals; `NO_COLOR` or `--no-color` disables them. Text from agents, tools and files is never
interpreted: control sequences are removed, or escaped where you are asked to decide.

## Exit codes

| code | meaning |
|---|---|
"""

_SETTINGS_HEAD = f"""{_MADE}

# Settings

A setting can be in the settings file, in the environment, or, if `fairlead serve` has an option of that name, on the
command line; the last of these counts. `fairlead config show` prints each setting with its value and its source.

The settings file is `~/.config/fairlead/config.toml` (under `XDG_CONFIG_HOME` if that is set), or the file that
`--config` or `FAIRLEAD_CONFIG` names. With an unknown setting or an invalid value the gateway does not start: it exits
with code 2 and prints the setting and its source.

```toml
port = 8000
roots = ["~/code", "~/notes"]
deny = ["Bash(git push:*)"]

[mcp.tickets]
command = "tickets-mcp"
args = ["--read-only"]
```

In the environment, lists are separated by commas, a switch is `true` or `false`, `yes` or `no`, `1` or `0`, and a table
is TOML.

"""

_SETTINGS_TAIL = """
## Variables that are not settings

| variable | meaning |
|---|---|
| `FAIRLEAD_TOKEN` | for `serve`: the first admin token (default: a generated one); otherwise: the token to use |
| `FAIRLEAD_URL` | address of the gateway that the commands use |
| `FAIRLEAD_CONFIG` | the settings file |
| `NO_COLOR` | any value disables colours |
| `VISUAL`, `EDITOR` | the editor for the input of a tool call that you change before you allow it |
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
    rows += map(_option, options)
    examples = command.epilog.partition("Examples:\n")[2].splitlines()
    return "\n".join(
        [
            f"### {name}",
            "",
            _flowed(command.help),
            "",
            f"    {usage}",
            "",
            "| option | meaning |",
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
    value = "" if param.is_flag or not param.metavar else f" {_cell(param.metavar)}"
    names = ", ".join(f"`{opt}{value}`" for opt in sorted(param.opts, key=len, reverse=True))
    variable = f" Variable: `{param.envvar}`." if param.envvar else ""
    return f"| {names} | {_cell(param.help)}{variable} |"


def _cell(text: str | None) -> str:
    return (text or "").replace("|", "\\|")


def _flowed(text: str) -> str:
    """Join the lines of each paragraph of a docstring."""
    return "\n\n".join(" ".join(part.split()) for part in text.strip().split("\n\n"))


def settings_page() -> str:
    rows = ["| setting | default | variable | meaning |", "|---|---|---|---|"]
    for field in msgspec.structs.fields(config.Config):
        default = _default(field.name, field.default)
        variable = f"`{config.ENV_PREFIX}{field.name.upper()}`"
        kind = config.type_of(field.name)
        choices = f" One of: {', '.join(get_args(kind))}." if get_origin(kind) is Literal else ""
        about = f"{_cell(config.describe(field.name))}{choices}"
        rows.append(f"| `{field.name}` | {default} | {variable} | {about} |")
    return _SETTINGS_HEAD + "\n".join(rows) + "\n" + _SETTINGS_TAIL


def _default(name: str, value: Any) -> str:
    if name == "data":
        return "`~/.local/share/fairlead`"
    if value is msgspec.NODEFAULT or value in ("", ()):
        return "none"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def pages() -> dict[str, str]:
    """Return the pages by file name."""
    return {"cli.md": cli_page(), "settings.md": settings_page()}


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/reference")
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
