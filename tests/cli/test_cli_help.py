"""Every command has a help text, and the reference pages agree with the commands and settings."""

import re
import subprocess
import sys
from typing import Any

import pytest
import typer

from cli.conftest import Fairlead
from fairlead import config
from fairlead.cli.errors import ExitCode
from fairlead.cli.main import app
from tools import reference

COMMANDS = [name for name, _ in reference.commands()]
LEAVES = {name for name, command in reference.commands() if not hasattr(command, "commands")}
# The commands that the issue promises.
PROMISED = {
    *("serve", "run", "ls", "attach", "send", "permit", "logs", "search", "import", "trust", "login", "backup"),
    *("restore", "du", "prune", "doctor", "token add", "token ls", "token revoke", "user add", "config show"),
    *("user ls", "user passwd", "user rm", "user invite"),
    *("interrupt", "close", "rename", "archive", "fork", "export", "rm"),
    "hook",
    "acp",
    "mcp",
    "hand-over",
    "share",
    "terminal",
    *("plugins ls", "plugins enable", "plugins disable", "agents ls", "agents add"),
    *("nodes key", "nodes adopt"),
    *("claude", "wrap", "shim install"),
    *("audit ls", "audit verify", "audit export"),
    *("stop", "drain", "service install", "service status", "service uninstall", "keeper run"),
    *("storage move", "storage verify", "storage mend"),
}

PASSES_ALL = "fairlead claude"
"""The command whose every argument is for Claude Code, --help too."""


def test_commands_are_exactly_the_promised_ones() -> None:
    assert {f"fairlead {name}" for name in PROMISED} == LEAVES


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != PASSES_ALL])
def test_the_help_of_every_command_has_an_example_that_names_it(name: str, fairlead: Fairlead) -> None:
    ran = fairlead(*name.split()[1:], "--help")
    assert ran.code == 0
    examples = ran.out.partition("Examples:\n")[2]
    assert f"{name} " in f"{examples} " or f"{name}\n" in examples


WITHOUT_JSON = {
    *("serve", "keeper run", "acp", "mcp", "hook", "claude", "wrap", "terminal"),
    *("export", "audit export", "nodes key", "service install", "service uninstall"),
}
"""Programs that run until they are ended or speak another protocol on stdout, and commands without a result."""


def test_every_command_with_a_result_has_json() -> None:
    without = {
        name.removeprefix("fairlead ")
        for name, command in reference.commands()
        if name in LEAVES and not any("--json" in param.opts for param in command.params)
    }
    assert without == WITHOUT_JSON


def test_the_word_session_may_be_left_out_and_old_names_still_work(fairlead: Fairlead) -> None:
    commands: Any = typer.main.get_command(app)
    verbs = set(commands.commands["session"].commands)
    assert verbs == {
        *("run", "ls", "search", "attach", "send", "hand-over", "share", "terminal", "logs", "permit"),
        *("interrupt", "close", "rename", "archive", "fork", "export", "rm"),
    }
    assert verbs <= set(commands.commands)
    for old in (("user", "list"), ("user", "remove"), ("token", "rm"), ("plugins",), ("agents",)):
        assert fairlead(*old, "--help").code == 0


@pytest.mark.parametrize("name", sorted(LEAVES - {PASSES_ALL}))
def test_unknown_option_exits_2(name: str, fairlead: Fairlead) -> None:
    assert fairlead(*name.split()[1:], "--no-such-option").code == ExitCode.USAGE


@pytest.mark.parametrize("name", reference.PAGES)
def test_the_reference_is_up_to_date(name: str) -> None:
    """If this fails: .venv/bin/python -m tools.reference"""
    page = (reference.FOLDER / name).read_text()
    assert page == reference.updated(page)
    assert page.count("<!-- made: ") == page.count("<!-- end -->") == 1


def test_every_setting_is_documented_with_its_variable() -> None:
    page = (reference.FOLDER / "settings.md").read_text()
    for name in config.names():
        assert config.describe(name)
        assert f"| `{name}` |" in page
        assert f"`FAIRLEAD_{name.upper()}`" in page


def test_every_setting_but_tables_and_limits_is_an_option_of_serve(fairlead: Fairlead) -> None:
    shown = fairlead("serve", "--help").out
    options = {option.replace("-", "_") for option in re.findall(r"--([a-z-]+)", shown)}
    assert {"host", "port", "data", "agent", "roots", "claude", "claude_home"} <= options
    assert options - set(config.names()) == {"no_keeper", "config", "help"}


def test_the_reference_names_every_exit_code() -> None:
    codes = re.findall(r"^\| (\d+) \| \w", (reference.FOLDER / "cli.md").read_text(), re.MULTILINE)
    assert codes == [str(int(code)) for code in ExitCode]


def test_version_is_printed(fairlead: Fairlead) -> None:
    ran = fairlead("--version")
    assert ran.code == 0
    assert re.fullmatch(r"fairlead \d+\.\d+\.\d+\S*\n", ran.out)


def test_help_does_not_import_the_server() -> None:
    """Tests the cost of `fairlead --help` without measuring time."""
    code = (
        "import sys; sys.argv = ['fairlead', '--help']\n"
        "from fairlead.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print('loaded:', *sorted(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.partition("loaded:")[2].split())
    for heavy in ("fairlead.wiring", "fairlead.server", "starlette", "uvicorn", "httpx2", "websockets", "tree_sitter"):
        assert heavy not in loaded


def test_the_gateway_starts_without_the_libraries_that_few_gateways_use() -> None:
    """Tests the cost of `fairlead serve` without measuring time."""
    code = (
        "import sys, fairlead.cli.main, fairlead.wiring\n"
        "from fairlead.server.discovery import discover, discover_services; discover(); discover_services()\n"
        "print([heavy for heavy in ('pydantic', 'jwt', 'httpx2', 'cryptography.x509', 'rich') if heavy in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


def test_shell_completion_is_available(fairlead: Fairlead) -> None:
    assert "--install-completion" in fairlead("--help").out


def test_a_broken_connection_is_not_taken_for_a_closed_output(
    fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("fairlead.cli.main.app", broken)
    ran = fairlead("ls")
    assert (ran.code, ran.out) == (ExitCode.FAILED, "")
    assert "The connection to the gateway broke" in ran.err
