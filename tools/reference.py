"""Generator for the parts of the reference pages that come from the commands and the settings.

    .venv/bin/python -m tools.reference

It writes the text between `<!-- made: NAME -->` and `<!-- end -->`. A test fails when a page is not up to date.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec
import typer

from fairlead import config
from fairlead.cli.main import app

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"
PAGES = ("cli.md", "settings.md")


def commands() -> Iterator[tuple[str, Any]]:
    """Yield every command with its full name, in the order of the help; a group comes before its commands."""
    yield from _below("fairlead", typer.main.get_command(app))


def _below(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield name, command
    for child, found in getattr(command, "commands", {}).items():
        # Aliases are hidden; the verbs of `session` are commands without that word, too.
        if not found.hidden and name != "fairlead session":
            yield from _below(f"{name} {child}", found)


def command_sections() -> str:
    return "\n".join(_section(name, command) for name, command in commands() if not hasattr(command, "commands"))


def _section(name: str, command: Any) -> str:
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = [param for param in command.params if param.param_type_name == "option"]
    usage = " ".join([name, *(_argument(param) for param in arguments), "[OPTIONS]"])
    rows = [f"| `{_argument(param)}` | {_cell(param.help)} |" for param in arguments]
    rows += map(_option, options)
    examples = command.epilog.partition("Examples:\n")[2].splitlines()
    lines = [
        *(f"### {name}", "", _flowed(command.help), "", f"    {usage}", ""),
        *("| option | meaning |", "|---|---|", *rows, "", "Examples:", ""),
        *(f"    {line.strip()}" for line in examples),
    ]
    return "\n".join(lines) + "\n"


def _argument(param: Any) -> str:
    name = (param.metavar or param.name).upper()
    return name if param.required else f"[{name}]"


def _option(param: Any) -> str:
    value = "" if param.is_flag or not param.metavar else f" {_cell(param.metavar)}"
    forms = [*sorted(param.opts, key=len, reverse=True), *param.secondary_opts]
    names = ", ".join(f"`{opt}{value}`" for opt in forms)
    variable = f" Variable: `{param.envvar}`." if param.envvar else ""
    return f"| {names} | {_cell(param.help)}{variable} |"


def _cell(text: str | None) -> str:
    return (text or "").replace("|", "\\|")


def _flowed(text: str) -> str:
    """Join the lines of each paragraph of a docstring."""
    return "\n\n".join(" ".join(part.split()) for part in text.strip().split("\n\n"))


def settings_table() -> str:
    rows = ["| setting | default | variable | meaning |", "|---|---|---|---|"]
    for field in msgspec.structs.fields(config.Config):
        default = _default(field.name, field.default)
        variable = f"`{config.ENV_PREFIX}{field.name.upper()}`"
        kind = config.type_of(field.name)
        choices = f" One of: {', '.join(get_args(kind))}." if get_origin(kind) is Literal else ""
        about = f"{_cell(config.describe(field.name))}{choices}"
        rows.append(f"| `{field.name}` | {default} | {variable} | {about} |")
    return "\n".join(rows) + "\n"


def _default(name: str, value: Any) -> str:
    if name == "data":
        return "`~/.local/share/fairlead`"
    if value is msgspec.NODEFAULT or value in ("", ()):
        return "none"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def updated(page: str) -> str:
    """Return a page with its generated parts made again."""
    parts = {"commands": command_sections(), "settings": settings_table()}
    return re.sub(
        r"<!-- made: (\w+) -->\n.*?\n<!-- end -->",
        lambda found: f"<!-- made: {found[1]} -->\n\n{parts[found[1]]}\n<!-- end -->",
        page,
        flags=re.DOTALL,
    )


def main() -> None:
    for name in PAGES:
        file = FOLDER / name
        file.write_text(updated(file.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
