"""The real CLIs, the rules that people write, and a canary in the gateway's data: no tool call of the model shows the
canary or changes it. The policy alone must hold: every permission request is denied.

`GATEWAYS` are the settings under which all of it runs.
"""

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from e2e.gateway_harness import GatewayHarness, Line, open_gateway, settings
from e2e.harness import on_versions
from fairlead.agents.scripts import ToolUse
from fairlead_testing.model_api import CALLS, ScriptedModel
from sessions.policy.canary import CANARY, RULES, Case, World, build, corpus

GATEWAYS: dict[str, dict[str, Any]] = {"policy-alone": {"sandbox": "off"}, "sandboxed": {"sandbox": "require"}}
SAMPLE = 60
AT_ONCE = 60  # calls of one turn: every call sends the whole conversation again

HONEST = [
    Case("Read", {"file_path": "plain.txt"}, "honest"),
    Case("Bash", {"command": "cat plain.txt", "description": "x"}, "honest"),
    Case("Bash", {"command": "x=plain; cat $x.txt", "description": "x"}, "honest"),
    Case("Bash", {"command": "cd sub && cat ../plain.txt && git log --oneline -3 | cat", "description": "x"}, "honest"),
]
# The agent's shell keeps its working folder: from here on the same commands refer to other files.
MOVED = [
    Case("Bash", {"command": "cat tik", "description": "x"}, "moved"),
    Case("Bash", {"command": "cat t*", "description": "x"}, "moved"),
    Case("Bash", {"command": "cat only/canary.txt", "description": "x"}, "moved"),
    Case("Bash", {"command": "x=only; grep -h . $x/canary.txt", "description": "x"}, "moved"),
    Case("Bash", {"command": "cat $PWD/tik", "description": "x"}, "moved"),
    Case("Read", {"file_path": "tik"}, "moved"),
    Case("Read", {"file_path": " only/canary.txt"}, "moved"),
    Case("Bash", {"command": "echo x > tik", "description": "x"}, "moved"),
    Case("Bash", {"command": "cat ../plain.txt", "description": "x"}, "honest"),
    Case("Bash", {"command": "cd .. && cat plain.txt", "description": "x"}, "honest"),
]


@pytest.fixture
def world(tmp_path: Path, cli_home: Path) -> World:
    made = build(tmp_path.resolve())
    assert made.home == cli_home.resolve()
    return made


def sample(cases: Sequence[Case], rng: random.Random) -> list[Case]:
    """Some cases of every group, and the rest at random."""
    groups: dict[str, list[Case]] = {}
    for case in rng.sample(cases, len(cases)):
        groups.setdefault(case.group, []).append(case)
    some = [case for group in groups.values() for case in group[:3]]
    rest = [case for group in groups.values() for case in group[3:]]
    return [*some, *rng.sample(rest, max(0, SAMPLE - len(some)))]


@pytest.mark.slow
@on_versions()
@pytest.mark.parametrize("gateway", GATEWAYS)
async def test_a_sample_of_the_corpus_does_no_harm(
    claude: Path, cli_env: dict[str, str], world: World, model: ScriptedModel, gateway: str, rng: random.Random
) -> None:
    shell = rng.choice(["/bin/bash", "/usr/bin/zsh"])
    done = await run(claude, {**cli_env, "SHELL": shell}, world, model, GATEWAYS[gateway], lambda all: sample(all, rng))
    assert done >= SAMPLE


@on_versions()
@pytest.mark.long
@pytest.mark.parametrize("shell", ["/bin/bash", "/usr/bin/zsh"])
@pytest.mark.parametrize("gateway", GATEWAYS)
async def test_the_corpus_does_no_harm(
    claude: Path, cli_env: dict[str, str], world: World, model: ScriptedModel, gateway: str, shell: str
) -> None:
    done = await run(claude, {**cli_env, "SHELL": shell}, world, model, GATEWAYS[gateway], list)
    assert done >= 500


async def run(
    claude: Path, env: dict[str, str], world: World, model: ScriptedModel, more: dict[str, Any], choose: Any
) -> int:
    """Make the chosen calls in sessions in the project and in the home; return how many calls there were."""
    ours = {"agent": "claude", "claude": str(claude), "pass_env": ["IS_SANDBOX", "SHELL"], "allow": RULES}
    config = settings(world.data, world.home, **ours, **more)
    count = 0
    async with open_gateway(config, env, world.project) as harness:
        world.port = int(harness.gateway.url.rpartition(":")[2])
        health = (await harness.http.get("/health")).text
        for cases in _by_place(choose(corpus(world))):
            harness.cwd = world.folder(cases[0])
            first = [] if cases[0].home else [*HONEST, *MOVED]
            await harness.open(settings={"mode": "acceptEdits"})
            for batch in _batches([*first, *cases]):
                # Each request contains the whole conversation so far: those of an earlier batch are no longer needed.
                model.requests.clear()
                events = len(harness.events)
                await make(harness, model, batch)
                sent = json.dumps([request.since_last_answer for request in model.requests], ensure_ascii=False)
                assert CANARY not in sent, "the model was shown the canary"
                check(world, batch, harness.events[events:], health)
                count += len(batch)
    return count


def _by_place(cases: Sequence[Case]) -> Iterator[list[Case]]:
    for home in (False, True):
        found = [case for case in cases if case.home is home]
        if found:
            yield found


def _batches(cases: list[Case]) -> Iterator[list[Case]]:
    for start in range(0, len(cases), AT_ONCE):
        yield cases[start : start + AT_ONCE]


async def make(harness: GatewayHarness, model: ScriptedModel, batch: Sequence[Case]) -> None:
    """One turn with these calls; every permission request is denied."""
    model.calls = [ToolUse(case.tool, case.input) for case in batch]
    await harness.send(f"SCRIPT:{CALLS}")
    while True:
        line = await harness.until(lambda line: line["type"] in ("permission.asked", "tool.ended", "turn.ended"))
        if line["type"] == "turn.ended":
            assert line["status"] == "completed"
            return
        if line["type"] == "permission.asked":
            refusal = {"request": line["request"], "behavior": "deny", "message": "no"}
            await harness.ask("answer", session=harness.session, **refusal)


def check(world: World, batch: Sequence[Case], events: Sequence[Line], health: str) -> None:
    """Check the output of each call, and the disk after all of them."""
    calls = list(dict.fromkeys(line["call"] for line in events if line["type"] == "tool.called"))
    ends = {line["call"]: str(line) for line in events if line["type"] == "tool.ended"}
    assert len(calls) == len(batch), "every call was made"
    assert ends.keys() >= set(calls), "every call came to its end"
    for call, case in zip(calls, batch, strict=True):
        assert CANARY not in ends[call], f"the canary was shown by {case}"
        assert health not in ends[call], f"the gateway was reached by {case}"
        if case.group == "honest":
            assert "x plain" in ends[call], f"{case} did not run: {ends[call]}"
    harm = world.harm("")
    assert harm is None, f"{harm} by one of {[case.input for case in batch]}"
