"""Take the screenshots of the web UI in docs/pictures, from a made-up story played by a scripted agent.

Not a test: `make screenshots` runs it when the UI has changed. The gateway's clock is set back, so that the story began
weeks ago.
"""

import asyncio
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

from browser.chromium import browsing, eventually
from browser.ui_harness import Device, UiHarness, open_ui
from fairlead.system.clock import SystemClock
from review.repositories import git, repository
from sessions.harness import FakeAgent

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "pictures"
WIDE = (1280, 820)
HAND = (390, 760)
LARGEST = 150_000
"""Maximum bytes of one screenshot: a reader loads them all with the page."""
HOUR_MS = 3_600_000

ANSWER = """\
The parser drops the last field when a line ends without a newline. `read_row` slices to `end - 1` in both cases:

| input | fields before | fields now |
|---|---|---|
| `a,b,c\\n` | 3 | 3 |
| `a,b,c` | 2 | 3 |

I changed the slice and added a test that failed before:

```python
def test_a_last_line_without_newline_keeps_its_field() -> None:
    assert read_row("a,b,c") == ["a", "b", "c"]
```

All 214 tests pass.
"""
TODOS = [
    {"content": "Find where the last field is lost", "status": "completed"},
    {"content": "Write the test that fails", "status": "completed"},
    {"content": "Run the whole suite", "status": "in_progress"},
]
FILES = {
    "README.md": "# rows\n\nReads tables of values.\n",
    "src/cells.py": '"""The cells of a row."""\n',
    "src/rows.py": '''"""Reads the rows of a table."""

SEPARATOR = ","


def read_row(line: str) -> list[str]:
    """The fields of a line, which may end with a newline."""
    end = len(line) - line.endswith("\\n")
    return line[:end].split(SEPARATOR)


def read_rows(text: str) -> list[list[str]]:
    return [read_row(line) for line in text.splitlines(keepends=True)]
''',
    "src/table.py": '"""A table of rows."""\n',
}
PRINTED = """\
\x1b[32m.......................................\x1b[0m\x1b[31mF\x1b[0m
tests/test_rows.py::test_a_last_line_without_newline_keeps_its_field \x1b[31mFAILED\x1b[0m
E       AssertionError: assert ['a', 'b'] == ['a', 'b', 'c']
\x1b[31m1 failed\x1b[0m, \x1b[32m213 passed\x1b[0m in 3.41s
"""


EARLIER = (
    # Hours before now, folder, session, prompt, model, dollars.
    (20 * 24, "site", "Dark mode for the docs", "Add a dark theme to the docs", "claude-sonnet-4-5", 0.92),
    (19 * 24, "site", "Dark mode for the docs", "The code blocks stay light", "claude-sonnet-4-5", 0.41),
    (16 * 24, "rows", "Faster reads", "Profile the reader on the large file", "claude-opus-4-5", 3.15),
    (15 * 24, "rows", "Faster reads", "Read in blocks instead", "claude-opus-4-5", 2.2),
    (13 * 24, "site", "Dark mode for the docs", "And the diagrams", "claude-sonnet-4-5", 0.66),
    (9 * 24, "rows", "Faster reads", "Add it to the benchmark", "claude-opus-4-5", 1.4),
    (8 * 24, "deploy", "Nightly backups", "Why did last night's backup fail?", "claude-haiku-4-5", 0.12),
    (6 * 24, "deploy", "Nightly backups", "Alert me when it happens again", "claude-haiku-4-5", 0.35),
    (5 * 24, "rows", "Faster reads", "Write up what we measured", "claude-opus-4-5", 1.1),
    (2 * 24, "site", "Broken links", "Find all links that lead nowhere", "claude-sonnet-4-5", 0.58),
    (26, "rows", "Faster reads", "Release it", "claude-opus-4-5", 0.74),
)


class StoryClock(SystemClock):
    """A clock set back to the time of the story; durations are measured as usual."""

    back_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() - self.back_ms


async def done(agent: FakeAgent, cost: float = 0.18, model: str = "claude-opus-4-5") -> None:
    usage = {"inputTokens": int(cost * 17_000), "outputTokens": int(cost * 8_200), "contextWindow": 200_000}
    usage |= {"cacheReadInputTokens": int(cost * 340_000)}
    ended = {model: {**usage, "costUSD": cost}}
    await agent.result(total_cost_usd=cost, duration_ms=int(cost * 268_000), modelUsage=ended)


async def earlier(harness: UiHarness, clock: StoryClock) -> int:
    """Play the weeks before; return how many agents they took."""
    agents: dict[str, FakeAgent] = {}
    sessions: dict[str, str] = {}
    for hours, folder, title, asked, model, cost in EARLIER:
        clock.back_ms = hours * HOUR_MS
        if title in agents:
            await harness.http.post(f"/v1/sessions/{sessions[title]}/messages", json={"text": asked})
            await agents[title].prompted()
        else:
            (harness.folder / folder).mkdir(exist_ok=True)
            sessions[title] = await harness.session(asked, title=title, cwd=str(harness.folder / folder))
            agents[title] = await harness.agent(len(agents) + 1)
        agent = agents[title]
        for number, tool in enumerate(("Read", "Grep", "Edit", "Bash", "Bash")):
            await agent.call(f"{hours}-{number}", tool, description="")
            clock.back_ms -= 2_000 * (number + 1)
            await agent.result_of(f"{hours}-{number}")
        await agent.text("Done.")
        # An agent reports the total cost since its process began.
        spent = cost + sum(row[5] for row in EARLIER if row[2] == title and row[0] > hours)
        before = len(await harness.events(sessions[title], "turn.ended"))
        await done(agent, spent, model)
        await ended_after(harness, sessions[title], before)
    clock.back_ms = 0
    return len(agents)


async def ended_after(harness: UiHarness, session: str, before: int) -> None:
    async def ends() -> int:
        return len(await harness.events(session, "turn.ended"))

    await eventually(ends, lambda found: found > before)


async def story(harness: UiHarness, clock: StoryClock) -> str:
    """Play several sessions at several stages; return the id of the one to look at."""
    before = await earlier(harness, clock)
    asked: list[tuple[str, str]] = [
        ("Why does the import lose the last column?", "Lost column in the import"),
        ("Upgrade the base image and see what breaks", "Upgrade the base image"),
        ("Write the release notes for 0.4", "Release notes 0.4"),
    ]
    sessions, agents = [], []
    for number, (text, title) in enumerate(asked, 1):
        folder = harness.folder / ("rows" if number < 3 else "site")
        folder.mkdir(exist_ok=True)
        sessions.append(await harness.session(text, title=title, cwd=str(folder)))
        agents.append(await harness.agent(before + number))
    for agent in agents[2:]:
        await agent.text("Done: see the file.")
        await done(agent, 0.04)
    await agents[1].call(
        "d1", "Bash", command="docker build -t app:next . && docker push app:next", description="Build"
    )
    await agents[1].ask("r1", "d1", "Bash", command="docker build -t app:next . && docker push app:next")
    await harness.asked()
    first = agents[0]
    await first.say(
        first._assistant({"type": "thinking", "thinking": "The slice in read_row looks odd.", "signature": ""})
    )
    await first.call("c1", "Grep", pattern="def read_row", path=str(harness.folder / "rows"))
    await first.result_of("c1", "src/rows.py:41:def read_row(line: str) -> list[str]:")
    await first.call("c2", "TodoWrite", todos=TODOS)
    await first.result_of("c2", "ok")
    path = str(harness.folder / "rows" / "src" / "rows.py")
    old = "    end = len(line)\n    return line[:end - 1].split(',')\n"
    new = "    end = len(line) - line.endswith('\\n')\n    return line[:end].split(',')\n"
    await first.call("c3", "Bash", command="pytest -q tests/test_rows.py", description="Run the tests of rows")
    await first.result_of("c3", PRINTED)
    await first.call("c4", "Edit", file_path=path, old_string=old, new_string=new)
    await first.result_of("c4", "ok")
    await first.text(ANSWER)
    await done(first)
    return sessions[0]


BEFORE = """\"\"\"Reads rows of a table from lines of text.\"\"\"


def read_row(line: str) -> list[str]:
    end = len(line)
    return line[: end - 1].split(",")


def read_table(text: str) -> list[list[str]]:
    return [read_row(line) for line in text.splitlines(keepends=True)]
"""
AFTER = BEFORE.replace("    end = len(line)\n", '    end = len(line) - line.endswith("\\n")\n').replace(
    '    return line[: end - 1].split(",")\n', "    cells = csv.reader([line[:end]])\n    return next(cells, [])\n"
)


async def reviewed(harness: UiHarness, number: int) -> str:
    """Play a session that changes files of a repository; return its id."""
    folder = harness.folder / "table"
    (folder / "src").mkdir(parents=True)
    (folder / "tests").mkdir()
    (folder / "src" / "rows.py").write_text(BEFORE)
    (folder / "notes.md").write_text("Columns are lost.\n")
    repository(folder)
    session = await harness.session("Read quoted cells", title="Read quoted cells", cwd=str(folder))
    agent = await harness.agent(number)
    (folder / "src" / "rows.py").write_text(AFTER.replace('text."""\n', 'text."""\n\nimport csv\n', 1))
    (folder / "tests" / "test_rows.py").write_text("def test_quotes() -> None:\n    assert True\n")
    (folder / "notes.md").unlink()
    git(folder, "add", "tests")
    await agent.text("Quoted cells are read by the csv module.")
    await done(agent)
    await ended_after(harness, session, 0)
    return session


async def shoot_review(device: Device, session: str, name: str) -> None:
    await device.open(f"/app/s/{session}/changes")
    await device.page.get_by_role("button", name="modified rows.py").click()
    rows = device.page.get_by_role("grid").get_by_role("row")
    await rows.filter(has_text="csv.reader").click()
    await rows.filter(has_text="next(cells").click(modifiers=["Shift"])
    await picture(device, name)


async def shoot(device: Device, path: str, name: str) -> None:
    await device.open(path)
    await device.page.wait_for_load_state()
    if "/s/" in path and "/files" not in path:
        await device.page.locator(".turn-end").last.wait_for()
        await device.page.locator(".hljs-keyword").first.wait_for()
    await picture(device, name)


async def picture(device: Device, name: str) -> None:
    # The focus ring is for a person who types.
    await device.page.evaluate("document.activeElement?.blur()")
    await device.page.wait_for_timeout(600)
    file = PICTURES / f"{name}.png"
    await device.page.screenshot(path=file)
    size = file.stat().st_size
    assert size <= LARGEST, f"{name}.png has {size} bytes, more than {LARGEST}"
    print(f"pictures: {name}.png", flush=True)


async def in_shell(device: Device, *lines: str) -> None:
    """Type each line when the shell shows its prompt."""
    await device.open("/app/terminals/build")
    for number, line in enumerate((*lines, ""), 1):
        prompts = device.page.locator(".xterm-rows > div", has_text=re.compile(r"^[#$]\s"))
        await expect(prompts).to_have_count(number)
        await device.page.locator(".xterm-helper-textarea").focus()
        await device.page.keyboard.type(f"{line}\n" if line else "")


def write_files(folder: Path) -> None:
    """The files of the story's project."""
    (folder / "src").mkdir(exist_ok=True)
    for name, text in FILES.items():
        (folder / name).write_text(text)


@contextmanager
def home() -> Iterator[Path]:
    """A folder whose name is readable in a screenshot."""
    folder = Path(tempfile.gettempdir()) / "ann"
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


async def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    clock = StoryClock()
    with home() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("fairlead.wiring.gateway.SystemClock", lambda: clock)
        async with browsing() as browser, open_ui(browser, folder, patch) as harness:
            session = await story(harness, clock)

            async def waiting() -> Any:
                return (await harness.http.get("/v1/permissions")).json()["permissions"]

            await eventually(waiting, bool)
            light = await harness.device("Desk", WIDE, color_scheme="light")
            await shoot(light, f"/app/s/{session}", "conversation")
            write_files(harness.folder / "rows")
            await shoot(light, f"/app/s/{session}/files?path=src&file=src/rows.py", "files")
            await shoot(light, "/app/approvals", "waiting")
            await shoot(light, "/app/usage", "usage")
            await shoot(light, "/app/notifications", "notifications")
            await shoot(light, f"/app/new?cwd={harness.folder}/rows", "new-session")
            tests = "seq 4 | xargs -I{} echo 'tests/part-{}: passed'"
            await in_shell(light, "cd rows", "git init -q && git status --short --branch", tests)
            await shoot(light, "/app/terminals/build", "terminal")
            await shoot(light, "/app/settings", "settings")
            await shoot(light, "/app/operation", "operation")
            dark = await harness.device("Night desk", WIDE, color_scheme="dark")
            await shoot(dark, f"/app/s/{session}", "conversation-dark")
            phone = await harness.device("Phone", HAND, has_touch=True, is_mobile=True, color_scheme="dark")
            await shoot(phone, "/app", "phone-sessions")
            await shoot(phone, f"/app/s/{session}", "phone-conversation")
            await shoot(phone, "/app/approvals", "phone-waiting")
            await shoot(phone, "/app/usage", "phone-usage")
            changed = await reviewed(harness, len(harness.kind.agents) + 1 if harness.kind else 1)
            await shoot_review(light, changed, "review")
            await shoot_review(phone, changed, "phone-review")


if __name__ == "__main__":
    asyncio.run(main())
