"""Laws of the envelopes: any input in any order gives balanced envelopes; and a cut and a resume change nothing."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.claude.golden_claude import Input, cases, inputs
from clients.happy.envelopes import (
    SESSION,
    MappedSession,
    assert_balanced,
    assistant,
    call,
    client_of,
    over,
    prompt,
    result,
    text,
    user,
    wire,
)
from fairlead.clients.happy.mapper import HappyReducer
from fairlead.model.store import Entry
from fairlead.model.views import NewRow
from fairlead_testing.happy_client import HappyClient


class RandomSession:
    """A generated, unlikely session: subagents inside subagents, text before its call, results in any order or missing,
    background work, interrupts, crashes and steering at any moment."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.made: list[Input] = []
        self.number = 0
        self.calls = 0
        self.open: dict[str, str] = {}
        self.threads = [""]
        self.promised: list[str] = []
        self.background: list[str] = []

    def uuid(self) -> str:
        self.number += 1
        return f"00000000-0000-4000-8000-{self.number:012}"

    def thread(self) -> dict[str, Any]:
        chosen = self.rng.choice(self.threads)
        return {"parent_tool_use_id": chosen} if chosen else {}

    def prompt(self) -> None:
        self.made.append(prompt(f"prompt {self.number}", self.uuid()))

    def words(self) -> None:
        blocks: list[Any] = [text(f"words {self.number}")]
        if self.rng.random() < 0.3:
            blocks.append({"type": "thinking", "thinking": "hm"})
        self.made.append(assistant(*blocks, uuid=self.uuid(), **self.thread()))

    def call(self) -> None:
        if self.promised and self.rng.random() < 0.5:
            name, call_id = self.rng.choice(["Task", "Agent"]), self.promised.pop(0)
        else:
            self.calls += 1
            name, call_id = self.rng.choice(["Bash", "Task", "Agent"]), f"toolu_{self.calls}"
        self.open[call_id] = name
        where = self.thread()
        self.made.append(assistant(call(name, call_id, prompt=f"job {call_id}"), uuid=self.uuid(), **where))
        if name != "Bash":
            self.threads.append(call_id)

    def orphan(self) -> None:
        self.calls += 1
        self.promised.append(f"toolu_{self.calls}")
        self.made.append(
            assistant(text(f"early {self.number}"), uuid=self.uuid(), parent_tool_use_id=self.promised[-1])
        )

    def result(self) -> None:
        if not self.open:
            return
        call_id = self.rng.choice(list(self.open))
        name = self.open.pop(call_id)
        more: dict[str, Any] = {}
        if name == "Agent" and self.rng.random() < 0.5:
            more = {"tool_use_result": {"isAsync": True, "status": "async_launched", "agentId": f"a-{call_id}"}}
            self.background.append(call_id)
        block = result(call_id, "ok", is_error=self.rng.random() < 0.2)
        self.made.append(user([block], uuid=self.uuid(), **more))

    def notified(self) -> None:
        if not self.background:
            return
        call_id = self.background.pop(self.rng.randrange(len(self.background)))
        facts = {"task_id": f"a-{call_id}", "tool_use_id": call_id, "summary": "done"}
        status = self.rng.choice(["completed", "failed", "stopped"])
        record = {"type": "system", "subtype": "task_notification", "uuid": self.uuid(), **facts, "status": status}
        self.made.append({"agent": record})

    def interrupt(self) -> None:
        self.made.append({"interrupt": self.uuid()})

    def over(self) -> None:
        self.made.append(over(self.rng.choice(["success", "error_during_execution"]), uuid=self.uuid()))

    def exit(self) -> None:
        self.made.append({"exit": "it crashed"})
        self.open.clear()
        self.background.clear()

    def play(self, steps: int) -> list[Input]:
        doing = [self.prompt, self.words, self.words, self.call, self.call, self.orphan, self.result, self.result]
        doing += [self.notified, self.over, self.interrupt, self.exit]
        for _ in range(steps):
            self.rng.choice(doing)()
        self.exit()
        return self.made


plays = st.tuples(st.randoms(use_true_random=False), st.integers(5, 60)).map(
    lambda made: RandomSession(made[0]).play(made[1])
)


@given(plays)
@settings(deadline=None, max_examples=150)
@pytest.mark.rules("S001-047", "S001-049", "S001-098", "S001-108", "S001-127", "S001-137", "S001-018")
def test_turns_calls_and_subagents_are_balanced_whatever_happens(made: list[Input]) -> None:
    session = MappedSession().run(made)
    assert_balanced(session.envelopes)
    ids = [envelope["id"] for envelope in session.envelopes]
    assert len(set(ids)) == len(ids)
    # No text is left out, and no text is emitted twice.
    threads = {
        block["text"]: one["agent"].get("parent_tool_use_id", "")
        for one in made
        for block in one.get("agent", {}).get("message", {}).get("content", [])
        if isinstance(block, dict) and block.get("type") == "text"
    }
    given_words = list(threads)
    texts = [item["ev"]["text"] for item in session.envelopes if item["ev"]["t"] == "text" and "claudeUuid" in item]
    agents = [words for words in texts if not words.startswith("prompt") and words != "hm"]
    assert sorted(agents) == sorted(given_words)
    # The text of each thread keeps its order, including text that had to wait for its call.
    for thread in {threads[words] for words in given_words}:
        assert [words for words in agents if threads[words] == thread] == [
            words for words in given_words if threads[words] == thread
        ]


def rows(fold: HappyReducer, entries: list[Entry]) -> list[bytes]:
    return [row.data for entry in entries for row in fold.step(entry) if isinstance(row, NewRow)]


def check_law(session: MappedSession, cuts: list[int]) -> None:
    """A reducer that is stopped anywhere and continues from its memory makes the same rows; so does a reducer over the
    log as it is read later, without the deltas; and a client that was away holds the same as one that never was."""
    whole = [row.data for row in session.rows]
    later = [entry for entry in session.entries if not entry.kind.endswith(".delta")]
    assert rows(HappyReducer(SESSION), later) == whole
    always = client_of(session.envelopes)
    for cut in cuts:
        first = HappyReducer(SESSION)
        before = rows(first, session.entries[:cut])
        second = HappyReducer(SESSION)
        second.restore(first.snapshot())
        assert before + rows(second, session.entries[cut:]) == whole
        seen = len(before)
        client = HappyClient()
        for seq, envelope in enumerate(session.envelopes[:seen], 1):
            client.receive(seq, wire(envelope))
        after = max(0, client.state.last_seq)
        client.page([(seq, wire(item)) for seq, item in enumerate(session.envelopes, 1) if seq > after])
        assert client.state == always.state
        assert client.tracer.children == always.tracer.children


@pytest.mark.parametrize("case", cases())
def test_every_cut_of_every_recorded_session(case: str) -> None:
    session = MappedSession().run(inputs(case))
    end = len(session.entries)
    check_law(session, list(range(0, end + 1, max(1, end // 12))))


@given(plays, st.data())
@settings(deadline=None, max_examples=60)
@pytest.mark.rules("S001-009", "S001-017")
def test_any_cut_of_any_session(made: list[Input], data: st.DataObject) -> None:
    session = MappedSession().run(made)
    check_law(session, data.draw(st.lists(st.integers(0, len(session.entries)), max_size=4)))


@given(plays)
@settings(deadline=None, max_examples=40)
def test_the_mappers_memory_stays_small(made: list[Input]) -> None:
    """The state of a turn is dropped with the turn: after an exit nothing that could grow is left open."""
    session = MappedSession().run(made)
    held = len(session.fold.snapshot())
    again = MappedSession()
    again.run(made)
    again.run([prompt("x", "00000000-0000-4000-8000-fffffffffff0"), assistant(text("y")), over()])
    assert len(again.fold.snapshot()) < held + 400
