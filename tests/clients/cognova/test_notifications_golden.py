"""Golden cases of notifications and their REST calls: tests/golden/cognova-notices/<case>/in.jsonl has one action a
line; answers.jsonl has the answers of the calls and frames.jsonl the frames to a peer of the feed. FAIRLEAD_WRITE=1
rewrites them: then review the diff.
"""

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clients.cognova.notifications_harness import FeedHarness, open_feed
from fairlead.notifications.api.feed import FeedItem
from fairlead_testing.notifications_client import NotificationsClient
from golden.cases import read_lines

CASES = Path(__file__).parents[2] / "golden" / "cognova-notices"
NAMES = sorted(path.name for path in CASES.iterdir())
ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
LABELS = {
    "create": ("created", "success"),
    "edit": ("updated", "info"),
    "delete": ("deleted", "warning"),
    "restore": ("restored", "success"),
    "run": ("started", "info"),
    "cancel": ("cancelled", "warning"),
    "complete": ("completed", "success"),
    "fail": ("failed", "error"),
}


def lines(case: str, name: str) -> list[Any]:
    return read_lines(CASES.name, case, name)


def write(case: str, name: str, found: list[Any]) -> None:
    text = "".join(json.dumps(one, ensure_ascii=False, separators=(",", ":")) + "\n" for one in found)
    (CASES / case / name).write_text(text)


class CasePlayer:
    """Plays a case; `{id}` is the id of the last created resource."""

    def __init__(self, harness: FeedHarness) -> None:
        self._harness = harness
        self._id = ""
        self.answers: list[Any] = []

    async def run(self, case: str) -> list[Any]:
        async with self._harness.listener() as listener:
            await listener.until(1)
            for line in lines(case, "in.jsonl"):
                if "call" in line:
                    await self._call(line)
                elif "say" in line:
                    await listener.say(line["say"])
                    await listener.settled()
                elif "advance" in line:
                    await self._advance(line["advance"])
                else:
                    await self._harness.service.feed.write(msgspec.convert(line["tell"], FeedItem))
            return await listener.settled()

    async def _advance(self, seconds: float) -> None:
        await self._harness.core.clock.advance(seconds)
        if (ringing := self._harness.service.scheduler._ringing) is not None:
            await asyncio.wait({ringing})

    async def _call(self, line: Any) -> None:
        method, path = line["call"].replace("{id}", self._id).split(" ", 1)
        body = json.loads(json.dumps(line.get("body")).replace("{id}", self._id))
        answer = await self._harness.call(method, path, body)
        reply = answer.json()
        self.answers.append({"call": line["call"], "status": answer.status_code, "body": reply})
        if method == "POST" and answer.status_code == 200 and "data" in reply:
            made = reply["data"].get("document", reply["data"])
            self._id = made.get("id", self._id)


@pytest.mark.rules("S002-002", "S002-083", "S002-092", "S002-135")
@pytest.mark.parametrize("case", NAMES)
async def test_a_case_comes_out_as_written(case: str, tmp_path: Path) -> None:
    async with open_feed(tmp_path) as harness:
        player = CasePlayer(harness)
        frames = await player.run(case)
    if os.environ.get("FAIRLEAD_WRITE"):
        write(case, "answers.jsonl", player.answers)
        write(case, "frames.jsonl", frames)
    assert player.answers == lines(case, "answers.jsonl")
    assert frames == lines(case, "frames.jsonl")


@pytest.mark.rules("S002-089", "S002-090", "S002-091", "S002-094", "S002-097", "S002-098", "S002-102")
@pytest.mark.parametrize("case", NAMES)
def test_every_frame_has_the_fields_of_the_seed(case: str) -> None:
    connected, *frames = lines(case, "frames.jsonl")
    assert list(connected) == ["type", "message", "timestamp"]
    assert (connected["type"], connected["message"]) == ("connected", "Notification bus connected")
    changes = [frame for frame in frames if "resource" in frame]
    for frame in (connected, *changes):
        assert ISO.fullmatch(frame["timestamp"])
    for change in changes:
        assert change["type"] == "resource_change"
        named = [name for name in ("resourceId", "resourceName") if name in change]
        assert list(change)[: 3 + len(named)] == ["type", "resource", "action", *named]
        assert all(isinstance(change[name], str) and change[name] for name in named)


@pytest.mark.rules("S002-097", "S002-098")
def test_a_change_names_the_task_that_was_made() -> None:
    made = next(answer["body"]["data"] for answer in lines("tasks", "answers.jsonl") if answer["status"] == 200)
    change = _frame("tasks", resource="task", action="create")
    assert (change["resourceId"], change["resourceName"]) == (made["id"], made["title"])


@pytest.mark.rules("S002-088", "S002-093")
def test_a_ping_is_answered_with_the_time() -> None:
    assert lines("frames", "in.jsonl")[0] == {"say": {"type": "ping"}}
    pong = lines("frames", "frames.jsonl")[1]
    assert list(pong) == ["type", "timestamp"] and pong["type"] == "pong" and ISO.fullmatch(pong["timestamp"])


@pytest.mark.rules("S002-095", "S002-096", "S002-099", "S002-100", "S002-101")
@pytest.mark.rules(*(f"S002-{number}" for number in range(120, 128)))
def test_every_type_and_action_has_its_text_and_colour() -> None:
    """Checked against the seed's own table, in addition to the golden files of the case."""
    frames = lines("every-type-and-action", "frames.jsonl")[1:73]
    assert len({(frame["resource"], frame["action"]) for frame in frames}) == 9 * 8
    for frame in frames:
        verb, color = LABELS[frame["action"]]
        label = frame["resource"].capitalize()
        assert (frame["title"], frame["color"]) == (f"{label} {verb}", color)
        assert frame["message"] == f'{label} "Fix login bug" was {verb}'


def _frame(case: str, **fields: str) -> Any:
    return next(one for one in lines(case, "frames.jsonl") if fields.items() <= one.items())


def test_the_frame_of_the_seed_comes_from_its_call() -> None:
    frame = _frame("tasks", resource="task", action="create")
    assert list(frame) == [
        *["type", "resource", "action", "resourceId", "resourceName", "title", "message", "color", "timestamp"]
    ]
    assert frame["message"] == 'Task "Fix login bug" was created'


@pytest.mark.rules("S002-134")
def test_a_disabled_preference_filters_at_the_client_and_not_here() -> None:
    assert _frame("settings", resource="task", action="create")["resourceName"] == "Still told"
    set_off = lines("settings", "answers.jsonl")[1]["body"]["data"]
    for preferences, shown in ((None, 1), (set_off, 0)):
        client = NotificationsClient(preferences)
        for frame in lines("settings", "frames.jsonl"):
            client.receive(frame)
        assert len(client.shown) == shown


def test_a_preference_may_leave_out_some_actions() -> None:
    client = NotificationsClient({"notifications": {"task": {"enabled": True, "subtypes": {"create": False}}}})
    for frame in lines("tasks", "frames.jsonl"):
        client.receive(frame)
    assert {change["action"] for change in client.shown if change["resource"] == "task"} == {
        "edit",
        "delete",
        "restore",
    }


def test_secret_values_are_only_in_the_answer_to_their_own_request() -> None:
    answers = [one for one in lines("secrets", "answers.jsonl") if not one["call"].startswith("GET /api/secrets/")]
    assert "s3cret" not in json.dumps(answers) and "sealed" not in json.dumps(answers)
    assert "s3cret" not in (CASES / "secrets" / "frames.jsonl").read_text()
    deleted = _frame("secrets", action="delete")
    assert "resourceId" not in deleted and deleted["resourceName"] == "API_KEY"
