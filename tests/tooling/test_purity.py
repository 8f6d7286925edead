"""Violations that the import check cannot see: a pure module that reads a clock, uses randomness or opens a file
without an import.

The pure modules are those of the contract `pure` in .importlinter: named there, or by their own docstrings.
"""

import ast
import configparser
import re
from pathlib import Path

from tools.purity import SOURCE, pure_claims
from tools.rules import ROOT

# datetime.now() and uuid4() need no module that the import check could reject; neither does open().
ASKS_THE_WORLD = {"now", "utcnow", "today", "uuid1", "uuid4", "open", "read_text", "read_bytes", "write_text"}


def as_pattern(expression: str) -> re.Pattern[str]:
    """A module expression of import-linter; it stands for the module, or the package and everything below it."""
    return re.compile(expression.replace(".", r"\.").replace("*", r"[^.]+") + r"(\..+)?")


def pure_modules() -> dict[str, Path]:
    config = configparser.ConfigParser()
    config.read(ROOT / ".importlinter")
    named = config["importlinter:contract:pure"]["source_modules"].split()
    patterns = [as_pattern(expression) for expression in (*named, *pure_claims())]
    found = {}
    for path in SOURCE.glob("fairlead/**/*.py"):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        if any(pattern.fullmatch(module) for pattern in patterns):
            found[module] = path
    return found


def calls(source: str) -> set[str]:
    """The last name of every call: `datetime.datetime.now(...)` gives `now`."""
    called = (node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return {
        function.attr if isinstance(function, ast.Attribute) else function.id
        for function in called
        if isinstance(function, ast.Attribute | ast.Name)
    }


def test_the_check_recognizes_a_clock_and_randomness() -> None:
    source = "import datetime, uuid\nat = datetime.datetime.now()\nname = uuid.uuid4()\n"
    assert calls(source) & ASKS_THE_WORLD == {"now", "uuid4"}


def test_expressions_mean_what_import_linter_means() -> None:
    assert as_pattern("fairlead.model").fullmatch("fairlead.model.events")
    assert as_pattern("fairlead.model").fullmatch("fairlead.model")
    assert not as_pattern("fairlead.model").fullmatch("fairlead.models")
    assert as_pattern("fairlead.agents.*.interpreter").fullmatch("fairlead.agents.claude.interpreter")
    assert not as_pattern("fairlead.agents.*.interpreter").fullmatch("fairlead.agents.a.b.interpreter")
    assert as_pattern("fairlead.*.api").fullmatch("fairlead.auth.api.credentials")


def test_a_docstring_makes_a_module_pure() -> None:
    assert {"fairlead.auth.gate", "fairlead.sessions.permissions.shell"} <= pure_claims()
    assert "fairlead.sessions.session" not in pure_claims()


def test_no_pure_module_reads_a_clock_uses_randomness_or_opens_a_file() -> None:
    modules = pure_modules()
    assert "fairlead.model.events" in modules
    wrong = {module: found for module, path in modules.items() if (found := calls(path.read_text()) & ASKS_THE_WORLD)}
    assert wrong == {}
