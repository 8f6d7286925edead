"""A page for an older Claude Code can ask to leave out records that it does not know: checked against the records of
each real CLI, and on the socket, in pages and on doors."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.claude.golden_claude import inputs
from clients.mylifedb.harness import MyLifeDbGateway
from clients.mylifedb.test_mylifedb_rest import ONE, call
from clients.mylifedb.test_mylifedb_socket import talked
from clients.mylifedb.view_offline import ViewRecorder
from fairlead.clients.mylifedb import PROTOCOL
from fairlead.clients.mylifedb.kinds import FIRST, Version, has_kind, kinds_of, read_version
from fairlead.clients.mylifedb.variants import MyLifeDbEncoder
from fairlead.model.errors import BadRequest
from fairlead.server.doors import Door, check_doors
from fairlead.server.errors import BadServerSetting
from fairlead.server.listeners import Binding
from sessions.harness import SESSION

GOLDEN = Path(__file__).parents[2] / "golden"
OLD: Version = (2, 1, 37)


def recorded() -> Iterator[tuple[Version, bytes]]:
    """Records that the real CLIs sent and wrote, with their versions."""
    for folder in sorted((GOLDEN / "claude").glob("2.*")):
        version = read_version(folder.name.split("-")[0])
        for line in (folder / "records.jsonl").read_bytes().splitlines():
            given = json.loads(line)
            for origin in ("agent", "transcript"):
                if isinstance(given.get(origin), dict):
                    yield version, json.dumps(given[origin]).encode()
    for folder in sorted((GOLDEN / "transcripts").glob("2.*")):
        for file in folder.rglob("*.jsonl"):
            for line in file.read_bytes().splitlines():
                yield read_version(folder.name.split("-")[0]), line


def types(frames: list[dict[str, Any]]) -> list[str]:
    return [frame["type"] for frame in frames]


def test_a_version_has_every_kind_that_it_was_recorded_to_send() -> None:
    found = list(recorded())
    assert {version for version, _ in found} == {(2, 1, 37), (2, 1, 120), (2, 1, 325)}
    unknown = {next(iter(kinds_of(data)), "") for version, data in found if not has_kind(version, data)}
    assert not unknown, "the table lacks these"


def test_kinds_that_only_newer_versions_send_are_hidden_from_an_older_page() -> None:
    old = {next(iter(kinds_of(data))) for version, data in recorded() if version == OLD}
    new = {next(iter(kinds_of(data))) for version, data in recorded() if version > OLD and not has_kind(OLD, data)}
    assert not old & new
    assert {"command_lifecycle", "system/status/requesting", "cost-state", "attachment/model"} <= new


def test_an_unknown_kind_counts_as_newer_than_every_version() -> None:
    unknown = b'{"type":"system","subtype":"from_next_year"}'
    assert has_kind((), unknown) and not has_kind((2, 1, 325), unknown)
    assert not has_kind(OLD, b"no record") and has_kind(OLD, b'{"type":"system","subtype":"status","status":null}')
    assert not has_kind(OLD, b'{"type":"system","subtype":"status","status":"requesting"}')
    assert max(FIRST.values()) == (2, 1, 325)


RECORDED = ["2.1.325-steer", "2.1.325-nested_subagents", "2.1.325-background_shell"]


@pytest.mark.parametrize("case", RECORDED)
def test_a_turn_of_the_newest_cli_ends_with_its_result_for_a_page_of_the_oldest(case: str) -> None:
    whole, plain = (
        ViewRecorder(MyLifeDbEncoder()).run(inputs(case)).live(),
        ViewRecorder(MyLifeDbEncoder(records=OLD)).run(inputs(case)),
    )
    frames = plain.live()
    assert [frame for frame in whole if has_kind(OLD, json.dumps(frame).encode())] == frames
    assert "command_lifecycle" in types(whole)
    assert types(frames)[-1] == "result"
    assert [frame for frame in frames if frame["type"] != "stream_event"] == plain.history()


@pytest.mark.parametrize("text", ["newest", "2", "2.1.x", "-1.2", "2.1.37 ", "2." + "1" * 7])
def test_an_invalid_version_is_rejected(text: str, tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="must be a version"):
        read_version(text)
    door = Door(name="mylifedb", port=1, options={"records": text})
    with pytest.raises(BadServerSetting, match=r"--door mylifedb=1: records must be a version such as 2\.1\.37\.$"):
        check_doors([door], [PROTOCOL], Binding(port=0), tmp_path)


async def lifecycle(gateway: MyLifeDbGateway) -> None:
    agent = await talked(gateway, 1)
    await agent.say({"type": "command_lifecycle", "uuid": agent._uuid("x"), "session_id": SESSION, "state": "done"})
    await gateway.core.until(lambda: gateway.core.loaded().core.log.head > 0)


async def test_the_socket_and_the_pages_accept_which_records_to_leave_out(gateway: MyLifeDbGateway) -> None:
    await lifecycle(gateway)
    async with gateway.tab() as tab, gateway.tab("?records=2.1.37") as old:
        await tab.until("command_lifecycle")
        await old.until("result")
        agent = gateway.core.kind.agents[0]
        await agent.say({"type": "command_lifecycle", "uuid": agent._uuid("y"), "session_id": SESSION})
        await tab.until("command_lifecycle")
        await gateway.core.send("more")
        await agent.prompted()
        await old.until(lambda frame: frame["type"] == "user" and frame["message"]["content"] == "more")
        assert "command_lifecycle" not in old.kinds()
    for path in ("/messages?page=0", "/history?all=1"):
        shown = {query: (await call(gateway, "GET", f"{ONE}{path}{query}")).json() for query in ("", "&records=2.1.37")}
        assert types(shown[""]["messages"]).count("command_lifecycle") == 2
        assert "command_lifecycle" not in types(shown["&records=2.1.37"]["messages"])
    refused = await call(gateway, "GET", f"{ONE}/messages?page=0&records=x")
    assert refused.status_code == 400 and "records must be a version" in refused.json()["error"]
