"""The pictures of the web UI in docs/pictures, taken from a made-up story told by an agent that says what we say.

No test: run by hand when the UI looks different.

    PYTHONPATH=tests:. tools/innet .venv/bin/python -m browser.pictures
"""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest

from browser.browsing import browsing, eventually
from browser.ui_house import Device, UiHouse, ui_house
from sessions.rig import SaidAgent

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "pictures"
WIDE = (1280, 820)
HAND = (390, 760)

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
PRINTED = """\
\x1b[32m.......................................\x1b[0m\x1b[31mF\x1b[0m
tests/test_rows.py::test_a_last_line_without_newline_keeps_its_field \x1b[31mFAILED\x1b[0m
E       AssertionError: assert ['a', 'b'] == ['a', 'b', 'c']
\x1b[31m1 failed\x1b[0m, \x1b[32m213 passed\x1b[0m in 3.41s
"""


async def done(agent: SaidAgent, cost: float = 0.18) -> None:
    usage = {"inputTokens": 3120, "outputTokens": 1480, "cacheReadInputTokens": 61200, "costUSD": cost}
    await agent.result(
        total_cost_usd=cost, duration_ms=48_200, modelUsage={"claude-opus-4-5": {**usage, "contextWindow": 200_000}}
    )


async def story(house: UiHouse) -> str:
    """Several sessions at several stages; the id of the one that is looked at."""
    asked: list[tuple[str, str]] = [
        ("Why does the import lose the last column?", "Lost column in the import"),
        ("Upgrade the base image and see what breaks", "Upgrade the base image"),
        ("Write the release notes for 0.4", "Release notes 0.4"),
        ("How are retries counted?", "Retries"),
    ]
    sessions, agents = [], []
    for number, (text, title) in enumerate(asked, 1):
        folder = house.folder / ("rows" if number < 3 else "site")
        folder.mkdir(exist_ok=True)
        sessions.append(await house.session(text, title=title, cwd=str(folder)))
        agents.append(await house.agent(number))
    for agent in agents[2:]:
        await agent.text("Done: see the file.")
        await done(agent, 0.04)
    await agents[1].call(
        "d1", "Bash", command="docker build -t app:next . && docker push app:next", description="Build"
    )
    await agents[1].ask("r1", "d1", "Bash", command="docker build -t app:next . && docker push app:next")
    await house.asked()
    first = agents[0]
    await first.say(
        first._assistant({"type": "thinking", "thinking": "The slice in read_row looks odd.", "signature": ""})
    )
    await first.call("c1", "Grep", pattern="def read_row", path=str(house.folder / "rows"))
    await first.result_of("c1", "src/rows.py:41:def read_row(line: str) -> list[str]:")
    await first.call("c2", "TodoWrite", todos=TODOS)
    await first.result_of("c2", "ok")
    path = str(house.folder / "rows" / "src" / "rows.py")
    old = "    end = len(line)\n    return line[:end - 1].split(',')\n"
    new = "    end = len(line) - line.endswith('\\n')\n    return line[:end].split(',')\n"
    await first.call("c3", "Bash", command="pytest -q tests/test_rows.py", description="Run the tests of rows")
    await first.result_of("c3", PRINTED)
    await first.call("c4", "Edit", file_path=path, old_string=old, new_string=new)
    await first.result_of("c4", "ok")
    await first.text(ANSWER)
    await done(first)
    return sessions[0]


async def shoot(device: Device, path: str, name: str) -> None:
    await device.open(path)
    await device.page.wait_for_load_state()
    if "/s/" in path:
        await device.page.locator(".turn-end").last.wait_for()
        await device.page.locator(".hljs-keyword").first.wait_for()
    # The focus ring belongs to whoever types.
    await device.page.evaluate("document.activeElement?.blur()")
    await device.page.wait_for_timeout(600)
    await device.page.screenshot(path=PICTURES / f"{name}.png")
    print(f"pictures: {name}.png", flush=True)


async def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        async with browsing() as browser, ui_house(browser, Path(folder), patch) as house:
            session = await story(house)

            async def waiting() -> Any:
                return (await house.http.get("/v1/permissions")).json()["permissions"]

            await eventually(waiting, bool)
            light = await house.device("Desk", WIDE, color_scheme="light")
            await shoot(light, f"/app/s/{session}", "conversation")
            await shoot(light, "/app/approvals", "waiting")
            await shoot(light, "/app/insight", "insight")
            await shoot(light, "/app/settings", "settings")
            dark = await house.device("Night desk", WIDE, color_scheme="dark")
            await shoot(dark, f"/app/s/{session}", "conversation-dark")
            phone = await house.device("Phone", HAND, has_touch=True, is_mobile=True, color_scheme="dark")
            await shoot(phone, "/app", "phone-sessions")
            await shoot(phone, f"/app/s/{session}", "phone-conversation")
            await shoot(phone, "/app/approvals", "phone-waiting")


if __name__ == "__main__":
    asyncio.run(main())
