"""Two laws of ACP.

`session/load`: an editor that loads a session at any moment and stays shows the same as one that was always there; the
history comes before the answer to the call, everything later after it. `session/prompt`: each prompt is answered once,
also if the editor lags or comes back."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.claude.golden_claude import cases, inputs
from clients.mylifedb.view_offline import ViewRecorder
from fairlead.clients.acp.encoder import AcpEncoder, OpenPrompt, SessionOpening
from fairlead.model import events as ev
from fairlead.model.gateway import Cursor
from fairlead.sessions.queries import HISTORY_KINDS
from fairlead_testing.replay import WAYS, LogScene, Plan, check_replay, plan_of, settled
from laws.replay_clients import ACP_FEATURES, ACP_OPTIONS, AcpReplay
from laws.test_cognova_law import ALTERED
from laws.test_cut_and_resume import generated

CALL = "load"


class LoadingEditor(AcpReplay):
    """An editor that calls `session/load` now, as the conversation does it."""

    def __init__(self, scene: LogScene) -> None:
        super().__init__(scene)
        stored = [entry.seq for entry in scene.log() if entry.kind in HISTORY_KINDS]
        self.opening = SessionOpening(CALL, stored[-1], b"{}")
        self.received: list[Any] = []

    def encoder(self) -> AcpEncoder:
        return AcpEncoder(features=ACP_FEATURES, offered=ACP_OPTIONS, opening=self.opening)

    def take(self, payload: bytes) -> None:
        self.received.append(json.loads(payload))
        super().take(payload)


class PromptingEditor(AcpReplay):
    """An editor that sent all prompts of the session. The id of each call is the id of its message."""

    def encoder(self) -> AcpEncoder:
        assert isinstance(self.scene, LogScene)
        prompts = tuple(OpenPrompt(message, message) for message in prompts_of(self.scene))
        return AcpEncoder(features=ACP_FEATURES, offered=ACP_OPTIONS, shown_after=self.after, prompts=prompts)

    def state(self) -> Any:
        return super().state(), self.editor.answers


def prompts_of(scene: LogScene) -> dict[str, str]:
    """The messages that began a turn of the log, with the turn."""
    events = (ev.decode(entry.event) for entry in scene._recorded.entries if entry.kind == "user.message")
    return {event.message: event.turn or "" for event in events if isinstance(event, ev.UserMessage)}


async def check_prompts(recorder: ViewRecorder, plan: Plan) -> None:
    """Each prompt whose turn has ended is answered, once, whatever happened to the connection."""
    scene = LogScene(recorder)
    await check_replay(PromptingEditor, scene, plan)
    ended = {ev.decode(entry.event).turn for entry in scene._recorded.entries if entry.kind == "turn.ended"}
    late = PromptingEditor(scene)
    late.open(Cursor(0))
    await settled()
    answered = {message for message, turn in prompts_of(scene).items() if turn in ended}
    assert answered <= set(late.editor.answers)
    late.disconnect()


def without_notices(state: Any) -> Any:
    """Notices are for the moment: a replay has none of them."""
    *shown, _, requests = state
    return shown, requests


async def check_load(recorder: ViewRecorder, moment: int) -> None:
    scene = LogScene(recorder)
    there = AcpReplay(scene)
    there.open(Cursor(0))
    await settled()
    while scene.moment < moment or not any(entry.kind in HISTORY_KINDS for entry in scene.log()):
        if scene.moment == scene.end:
            return
        scene.publish()
        await settled()
    loading = LoadingEditor(scene)
    loading.open(Cursor(0))
    await settled()
    places = [place for place, message in enumerate(loading.received) if message.get("id") == CALL]
    assert len(places) == 1, "the call is answered once, without waiting for anything"
    early, late = loading.received[: places[0]], loading.received[places[0] + 1 :]
    assert {message["method"] for message in early} <= {"session/update"}, "no request before the answer"
    positions = [message["params"]["update"]["_meta"]["fairlead"]["seq"] for message in early]
    assert max(positions, default=0) <= loading.opening.seq
    requests = [message for message in late if "id" in message]
    assert [message["id"] for message in requests] == list(there.editor.requests), "open ones, each once"
    while scene.moment < scene.end:
        scene.publish()
        await settled()
    assert without_notices(loading.state()) == without_notices(there.state())
    for client in (there, loading):
        client.disconnect()


@pytest.mark.parametrize("case", sorted({*cases()} - ALTERED))
async def test_every_recorded_session(case: str) -> None:
    recorder = ViewRecorder().run(inputs(case))
    end = len(recorder.entries)
    for moment in sorted({1, end // 3, 2 * end // 3, end}):
        await check_load(recorder, moment)
    await check_prompts(recorder, plan_of([(end // 4, end // 2), (2 * end // 3, end)], ["lags", "reconnects"]))


@settings(max_examples=40, deadline=None)
@given(generated(), st.floats(0, 1), st.floats(0, 1), st.sampled_from(sorted(WAYS)))
def test_any_moment_of_any_session(made: Any, part: float, other: float, way: str) -> None:
    recorder = ViewRecorder().run(made)
    moments = [round(place * len(recorder.entries)) for place in (part, other)]
    asyncio.run(check_load(recorder, moments[0]))
    asyncio.run(check_prompts(recorder, plan_of([(moments[0], moments[1])], [way])))
