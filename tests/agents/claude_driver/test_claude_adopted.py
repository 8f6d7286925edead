"""The driver of a CLI at the keeper: what it stores with each record, and how a restarted gateway continues from it."""

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.claude_driver.harness import NEW, OLD, DriverHarness, asks, hook
from fairlead.agents.links.kept_output import KeptOutput, prompt_key, reply_key
from fairlead.model.agents import Decision, Record
from fairlead.model.errors import AgentNotRunning, Stale
from fairlead.model.events import PermissionResolved
from fairlead.model.ids import CallId, RequestId, event_id
from fairlead.model.policy import Behavior, Verdict
from fairlead.model.store import OutputPosition, StoredOutput
from patience import settled

TEXT = {"type": "assistant", "uuid": "u1", "message": {"role": "assistant", "content": []}}


class KeptHarness(DriverHarness):
    """A driver whose process is at a keeper; `acked` are the offsets that the keeper was told."""

    def __init__(self, version: tuple[int, int, int] = NEW, stored: StoredOutput | None = None) -> None:
        self.acked: list[int] = []
        super().__init__(version, KeptOutput(self.acked.append, stored))

    @property
    def positions(self) -> list[OutputPosition]:
        return self.sink.all("position")

    def next_gateway(self, version: tuple[int, int, int] = NEW) -> "KeptHarness":
        """A driver that begins with what is in the store now."""
        changes = [position.recall for position in self.positions if position.recall is not None]
        return KeptHarness(version, StoredOutput(self.positions[-1].offset, changes[-1] if changes else ()))

    async def stored_up_to(self, words: bytes) -> None:
        await self.sink.record_with(words)
        await settled()


def permission(request: str, call: str = "c1") -> dict[str, Any]:
    return asks(request, subtype="can_use_tool", tool_name="Bash", input={"command": "ls"}, tool_use_id=call)


def resolved(request: str, behavior: Any = "allow", how: Any = "person") -> PermissionResolved:
    return PermissionResolved(
        id=event_id("x", "permission.resolved"),
        request=RequestId(request),
        call=CallId("c1"),
        tool="Bash",
        behavior=behavior,
        how=how,
        message="because",
        input={"command": "ls"},
    )


async def test_the_keeper_is_told_only_after_the_records_are_stored() -> None:
    harness = await KeptHarness().start()
    told = list(harness.acked)
    harness.sink.gate = asyncio.Event()
    harness.link.says(TEXT)
    await harness.sink.record_with(b"assistant")
    await settled()
    assert harness.acked == told, "the append is still under way"
    harness.sink.gate.set()
    await settled()
    assert harness.acked != told
    assert harness.acked[-1] == harness.positions[-1].offset
    await harness.end()


@given(cuts=st.lists(st.integers(1, 40), max_size=30))
async def test_a_stored_position_is_always_the_end_of_a_line(cuts: list[int]) -> None:
    harness = await KeptHarness().start()
    before = harness.positions[-1].offset
    whole = b"".join(msgspec.json.encode({**TEXT, "uuid": f"u{number}"}) + b"\r\n\n" for number in range(5))
    rest = whole
    for cut in cuts:
        harness.link.says_bytes(rest[:cut])
        rest = rest[cut:]
    harness.link.says_bytes(rest or b"\n")
    await harness.end()
    ends = {number + 1 for number, byte in enumerate(whole) if byte == ord("\n")}
    assert {position.offset - before for position in harness.positions} - {0} <= ends
    assert len([raw for raw in harness.sink.raws if b"assistant" in raw]) == 5


async def test_the_cli_is_initialized_once() -> None:
    first = await KeptHarness().start()
    assert [message["request"]["subtype"] for message in first.link.sent] == ["initialize"]
    second = await first.next_gateway().start()
    assert second.link.sent == []
    await first.end()
    await second.end()


async def test_a_start_that_was_not_finished_goes_on_with_the_same_request() -> None:
    """The keeper has the key of the first request, so the CLI gets it once, and its answer is recognised."""
    first = KeptHarness()
    first.link.on_send = lambda message: first.link.die(first.link.exit)
    with pytest.raises(AgentNotRunning):
        await first.start_as_it_is()
    second = await KeptHarness(NEW, StoredOutput()).start()
    assert first.link.sent[0]["request_id"] == second.link.sent[0]["request_id"]
    assert first.link.keys[0] == second.link.keys[0] != ""
    await second.end()


async def test_an_answer_to_the_start_that_is_stored_is_not_asked_for_again() -> None:
    answered = msgspec.json.encode({"type": "fairlead_answered", "request": "start-initialize"})
    harness = await KeptHarness(NEW, StoredOutput(100, (answered,))).start()
    assert harness.link.sent == []
    await harness.end()


async def test_a_request_is_stored_with_its_record_until_it_is_answered() -> None:
    harness = await KeptHarness().start()
    harness.link.says(permission("r1"))
    await harness.sink.until(lambda: harness.sink.all("asked"))
    assert any(b'"r1"' in line for line in harness.next_gateway().link.output.recalled)  # type: ignore[union-attr]
    await harness.agent.answer(RequestId("r1"), Decision("allow"))
    assert harness.link.keys[-1] == reply_key("r1")
    harness.link.says(TEXT)
    await harness.stored_up_to(b"assistant")
    assert not any(b'"r1"' in line for line in harness.next_gateway().link.output.recalled)  # type: ignore[union-attr]
    await harness.end()


async def test_a_pending_request_can_be_answered_after_a_restart() -> None:
    first = await KeptHarness().start()
    first.link.says(permission("r1"))
    await first.sink.until(lambda: first.sink.all("asked"))
    second = first.next_gateway()
    second.sink.request_states["r1"] = "pending"
    await second.start()
    await settled()
    assert second.link.sent == [] and not second.sink.all("asked"), "it is in the log already"
    await second.agent.answer(RequestId("r1"), Decision("allow"))
    (answer,) = second.link.answers_of("r1")
    assert answer["response"]["behavior"] == "allow"
    await first.end()
    await second.end()


async def test_a_decision_that_the_cli_may_not_have_got_is_sent_again() -> None:
    first = await KeptHarness().start()
    first.link.says(permission("r1"))
    await first.sink.until(lambda: first.sink.all("asked"))
    second = first.next_gateway()
    second.sink.request_states["r1"] = resolved("r1", "deny")
    await second.start()
    answer = await second.answer_to("r1")
    assert (answer["response"]["behavior"], answer["response"]["message"]) == ("deny", "because")
    assert second.link.keys == [reply_key("r1")]
    await first.end()
    await second.end()


async def test_a_request_that_was_cancelled_meanwhile_is_not_open_any_more() -> None:
    first = await KeptHarness().start()
    first.link.says(permission("r1"))
    await first.sink.until(lambda: first.sink.all("asked"))
    second = first.next_gateway()
    second.sink.request_states["r1"] = "settled"
    await second.start()
    await settled()
    with pytest.raises(Stale):
        await second.agent.answer(RequestId("r1"), Decision("allow"))
    await first.end()
    await second.end()


async def test_a_hook_whose_verdict_is_in_the_log_is_not_checked_again() -> None:
    first = await KeptHarness().start()
    first.sink.verdict = Verdict(Behavior.ALLOW, "fine", by="rule")
    first.link.on_send = None
    first.link.says(hook("h1"))
    await first.sink.until(lambda: first.sink.all("check"))
    second = first.next_gateway()
    second.sink.request_states["hook:call-h1"] = resolved("hook:call-h1", "deny", "rule")
    await second.start()
    answer = await second.answer_to("h1")
    assert answer["response"]["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert not second.sink.all("check")
    await first.end()
    await second.end()


async def test_an_open_hook_is_checked_after_a_restart() -> None:
    first = await KeptHarness().start()
    first.sink.gate = asyncio.Event()  # the first gateway dies before it has checked
    first.link.says(hook("h1"))
    await first.sink.record_with(b"hook_callback")
    second = first.next_gateway()
    second.sink.verdict = Verdict(Behavior.ALLOW, "fine", by="rule")
    await second.start()
    await second.sink.until(lambda: second.sink.all("check"))
    answer = await second.answer_to("h1")
    assert answer["response"]["hookSpecificOutput"]["permissionDecision"] == "allow"
    first.sink.gate.set()
    await first.end()
    await second.end()


async def test_an_old_version_is_not_asked_twice_about_a_call_that_its_hook_has_allowed() -> None:
    """It asks about a call although the hook has allowed it; the gateway that answered the hook may be gone by then."""
    first = await KeptHarness(OLD).start()
    first.sink.verdict = Verdict(Behavior.ALLOW, "fine", by="rule")
    first.link.says(hook("h1"))
    await first.answer_to("h1")
    first.link.says(TEXT)
    await first.stored_up_to(b"assistant")
    second = await first.next_gateway(OLD).start()
    second.link.says(permission("r1", "call-h1"))
    await second.answer_to("r1")
    assert not second.sink.all("asked")
    await first.end()
    await second.end()


async def test_a_prompt_has_the_same_key_whenever_it_is_written() -> None:
    harness = await KeptHarness().start()
    raw = msgspec.json.encode({"type": "user", "message": {"role": "user", "content": "hi"}, "uuid": "m1"})
    for _ in range(2):
        await harness.agent.write(Record(raw, "gateway"))
    assert harness.link.keys[-2:] == [prompt_key(raw)] * 2
    assert prompt_key(raw) != prompt_key(raw.replace(b"m1", b"m2"))
    await harness.end()
