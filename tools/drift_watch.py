"""A pytest plugin for tools/drift.py: how each test ended, and the CLI's messages that our decoder does not know.

It reads every line that a CLI writes on its wire (all of them pass through `LineSplitter`) and every row of the
transcripts that a test leaves behind. Loaded with `-p tools.drift_watch`.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from fairlead.agents.claude.wire.control import REQUESTS_FROM_CLI
from fairlead.agents.claude.wire.decode import decode
from fairlead.agents.claude.wire.records import InvalidRecord, UnknownRecord
from fairlead.agents.links.framing import LineSplitter, Oversize


def kind_of(line: bytes) -> str:
    """The name of a line: its type, and its subtype where it has one."""
    try:
        data = json.loads(line)
    except ValueError:
        return ""
    if not isinstance(data, dict) or not isinstance(data.get("type"), str):
        return ""
    return "/".join(part for part in (data["type"], data.get("subtype")) if isinstance(part, str))


class Watch:
    """The observations of one run. `unknown_*` are the messages that the decoder or the control protocol has no class
    for.
    """

    def __init__(self) -> None:
        self.tests: dict[str, str] = {}
        self.wire: set[str] = set()
        self.rows: set[str] = set()
        self.requests: set[str] = set()

    def line(self, raw: bytes | Oversize) -> None:
        if isinstance(raw, Oversize) or not (kind := kind_of(raw)):
            return
        if kind == "control_request":
            asked = json.loads(raw).get("request", {}).get("subtype", "")
            if asked not in REQUESTS_FROM_CLI:
                self.requests.add(str(asked))
        elif isinstance(decode(raw), UnknownRecord | InvalidRecord):
            self.wire.add(kind)

    def transcript(self, path: Path) -> None:
        for row in path.read_bytes().splitlines():
            if (kind := kind_of(row)) and isinstance(decode(row), UnknownRecord | InvalidRecord):
                self.rows.add(kind)

    # --- pytest hooks

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome != "passed" or (report.when == "call" and report.nodeid not in self.tests):
            self.tests[report.nodeid] = report.outcome

    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        home = getattr(item, "funcargs", {}).get("cli_home")
        if isinstance(home, Path):
            for path in home.glob(".claude/projects/**/*.jsonl"):
                self.transcript(path)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        found: dict[str, Any] = {
            "tests": self.tests,
            "records": sorted(self.wire),
            "rows": sorted(self.rows),
            "requests": sorted(self.requests),
        }
        Path(session.config.getoption("--drift-file")).write_text(json.dumps(found, indent=1) + "\n")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--drift-file", required=True, help="where the result is written")


def pytest_configure(config: pytest.Config) -> None:
    watch = Watch()
    feed = LineSplitter.feed

    def watched(self: LineSplitter, data: bytes) -> list[bytes | Oversize]:
        lines = feed(self, data)
        for line in lines:
            watch.line(line)
        return lines

    LineSplitter.feed = watched  # type: ignore[method-assign]
    config.pluginmanager.register(watch, "fairlead-drift-watch")
