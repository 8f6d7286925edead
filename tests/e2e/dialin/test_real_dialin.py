"""The real CLI behind the whole gateway, over dial-in: the foundation's scenarios, on the last two that dial."""

import asyncio
import itertools
import json
import os
import signal
from pathlib import Path

import pytest

from e2e.cuttable_relay import Relay
from e2e.dialin_harness import by_hand, dialing, dialing_core, gone, grows, pid, written_down
from e2e.gateway_harness import GatewayHarness, a_question_is_answered
from e2e.harness import LAST_DIAL_IN, NEWEST, OLDEST, on_versions, since
from fairlead.model.ids import is_uuid
from fairlead_testing.model_api import ScriptedModel
from patience import PATIENCE

# --- turns


@dialing_core
@pytest.mark.rules("S004-001", "S004-004", "S004-017", "S004-020", "S004-029", "S004-038", "S004-039")
@pytest.mark.rules("S004-041", "S004-291", "S004-324")
@pytest.mark.rules("S004-063", "S004-064", "S004-065", "S004-134", "S004-250", "S004-330")
@pytest.mark.rules("S004-050", "S004-124", "S004-125", "S004-323")
async def test_turns_and_permissions_on_one_connection(
    harness: GatewayHarness, version: str, relay: Relay, model: ScriptedModel
) -> None:
    await a_plain_turn_with_deltas(harness, version, relay, model)
    for scene, fits in (
        (a_queue_of_three_prompts_is_three_turns_on_one_connection, True),
        (an_interrupt_in_mid_stream_and_after_it_the_next_prompt, True),
        (an_api_error_is_a_failed_turn, True),
        (a_variable_is_set_while_it_runs, True),
        (a_tool_is_allowed_denied_and_changed, True),
        (a_subagents_work_is_shown_inside_it, True),
        (the_policy_denies_through_its_hook_without_asking, True),
        (what_a_rule_allows_is_answered_with_the_input_that_was_asked_about, version == LAST_DIAL_IN),
        (a_question_is_answered_and_a_plan_approved, True),
        (mode_and_model_change_while_it_runs, True),
    ):
        if fits:
            harness.scene()
            await scene(harness, relay, model)
    assert len(relay.sockets()) == 1
    await harness.raw()


async def a_plain_turn_with_deltas(harness: GatewayHarness, version: str, relay: Relay, model: ScriptedModel) -> None:
    await harness.open("SCRIPT:long 40")
    end = await harness.until("turn.ended")
    assert end["status"] == "completed"
    assert "".join(line["text"] for line in harness.all("text.delta")) == harness.all("text")[0]["text"]
    (ready,) = harness.all("agent.ready")
    assert (ready["version"], ready["agent_session"]) == (version, harness.session)
    (upgrade,) = relay.sockets()
    assert upgrade["authorization"].startswith("Bearer fl_")
    assert "x-environment-runner-version" not in upgrade
    assert "x-last-request-id" not in upgrade
    assert relay.posts() == [] and relay.spoken > 0
    assert "placeholder" not in str([request.since_last_answer for request in model.requests])
    await harness.raw()


async def a_queue_of_three_prompts_is_three_turns_on_one_connection(
    harness: GatewayHarness, relay: Relay, model: ScriptedModel
) -> None:
    await harness.send("SCRIPT:slow 4")
    await harness.send("SCRIPT:text two")
    await harness.send("SCRIPT:text three")
    for _ in range(3):
        assert (await harness.until("turn.ended"))["status"] == "completed"
    assert [text.split()[-1] for text in harness.texts()] == ["tick", "two", "three"]
    assert (harness.all("agent.started"), len(relay.sockets())) == ([], 1), "the process of the turn before"
    first, *others = relay.lines()
    assert first["request"]["subtype"] == "initialize"
    prompts = [line for line in others if line["type"] == "user"]
    assert [line["session_id"] for line in prompts] == ["", harness.session, harness.session, harness.session]
    assert len({line["uuid"] for line in prompts if is_uuid(line["uuid"])}) == 4
    assert not gone(pid(harness)), "it waits for more"


async def an_interrupt_in_mid_stream_and_after_it_the_next_prompt(
    harness: GatewayHarness, relay: Relay, model: ScriptedModel
) -> None:
    await harness.send("SCRIPT:slow 200")
    await harness.until("text.delta")
    await harness.do("interrupt")
    assert (await harness.until("turn.ended"))["status"] == "cancelled"
    assert (await harness.turn("SCRIPT:text after"))["status"] == "completed"
    await harness.raw()


async def mode_and_model_change_while_it_runs(harness: GatewayHarness, relay: Relay, model: ScriptedModel) -> None:
    await harness.do("set_model", model="claude-haiku-4-5")
    await harness.do("set_mode", mode="acceptEdits")
    target = harness.cwd / "new.txt"
    await harness.turn(f"SCRIPT:write {target}")
    assert model.of("write")[-1].model == "claude-haiku-4-5"
    assert target.exists() and harness.all("permission.asked") == []


async def an_api_error_is_a_failed_turn(harness: GatewayHarness, relay: Relay, model: ScriptedModel) -> None:
    await harness.send("SCRIPT:error 529")
    assert (await harness.until("turn.ended"))["status"] == "failed"
    assert (await harness.turn("SCRIPT:text after"))["status"] == "completed"


async def a_variable_is_set_while_it_runs(harness: GatewayHarness, relay: Relay, model: ScriptedModel) -> None:
    url = f"/v1/sessions/{harness.session}/environment"
    assert (await harness.http.post(url, json={"variables": {"TEAM": "blue"}})).status_code == 200
    assert (await harness.http.post(url, json={"variables": {"PATH": "/tmp"}})).status_code == 403
    await harness.send("SCRIPT:bash echo team=$TEAM")
    await harness.answer(await harness.until("permission.asked"))
    await harness.until("turn.ended")
    assert "team=blue" in str(harness.all("tool.ended")[-1]["content"])
    kinds = {line["type"] for line in relay.lines()}
    assert kinds == {"user", "control_request", "control_response", "update_environment_variables"}


# --- permissions


async def a_tool_is_allowed_denied_and_changed(harness: GatewayHarness, relay: Relay, model: ScriptedModel) -> None:
    made = [harness.cwd / name for name in ("allowed", "denied", "asked", "changed")]
    await harness.send(f"SCRIPT:bash touch {made[0]}")
    await harness.answer(await harness.until("permission.asked"))
    await harness.until("turn.ended")
    await harness.send(f"SCRIPT:bash touch {made[1]}")
    await harness.answer(await harness.until("permission.asked"), "deny", message="because of the tests")
    await harness.until("turn.ended")
    assert "because of the tests" in str(model.of("bash")[-1].since_last_answer)
    await harness.send(f"SCRIPT:bash touch {made[2]}")
    asked = await harness.until("permission.asked")
    await harness.answer(asked, updated_input={**asked["input"], "command": f"touch {made[3]}"})
    await harness.until("turn.ended")
    assert [path.exists() for path in made] == [True, False, False, True]
    await harness.raw()


async def a_question_is_answered_and_a_plan_approved(
    harness: GatewayHarness, relay: Relay, model: ScriptedModel
) -> None:
    await a_question_is_answered(harness, model)
    await harness.do("set_mode", mode="plan")
    await harness.send("SCRIPT:plan")
    await harness.answer(await harness.until("plan.proposed"))
    assert (await harness.until("turn.ended"))["status"] == "completed"


async def a_subagents_work_is_shown_inside_it(harness: GatewayHarness, relay: Relay, model: ScriptedModel) -> None:
    await harness.send(f"SCRIPT:subagent bash touch {harness.cwd / 'sub'}")
    asked = await harness.until("permission.asked")
    assert asked["subagent"] == harness.all("subagent.started")[0]["child"]
    await harness.answer(asked)
    await harness.until("subagent.ended")
    await harness.until("turn.ended")
    assert (harness.cwd / "sub").exists()
    await harness.raw()


async def the_policy_denies_through_its_hook_without_asking(
    harness: GatewayHarness, relay: Relay, model: ScriptedModel
) -> None:
    """The data folder is fenced off, whatever a person or a project would allow."""
    await harness.send(f"SCRIPT:bash cat {harness.gateway.data}/server.json")
    await harness.until("turn.ended")
    (resolved,) = harness.all("permission.resolved")
    assert (resolved["behavior"], resolved.get("asked", True)) == ("deny", False)


async def what_a_rule_allows_is_answered_with_the_input_that_was_asked_about(
    harness: GatewayHarness, relay: Relay, model: ScriptedModel
) -> None:
    """The last version that dials in asks for permission even though the hook has allowed the call."""
    command = f"touch {harness.cwd / 'made'}"
    await harness.send(f"SCRIPT:bash {command}")
    await harness.answer(await harness.until("permission.asked"), remember=["Bash(touch *)"])
    assert (await harness.until("turn.ended"))["status"] == "completed"
    before = len(relay.received)
    assert (await harness.turn(f"SCRIPT:bash {command}"))["status"] == "completed"
    assert len(harness.all("permission.asked")) == 1
    (line,) = [part for part in bytes(relay.received[before:]).splitlines(keepends=True) if b'"behavior"' in part]
    assert line.endswith(b"\n")
    answer = json.loads(line[line.index(b"{") :])["response"]["response"]
    assert (answer["behavior"], answer["updatedInput"]) == ("allow", harness.all("tool.called")[-1]["input"])


# --- the process


@dialing
async def test_the_limit_of_turns_is_a_failed_turn(harness: GatewayHarness) -> None:
    await harness.open(settings={"max_turns": 2})
    await harness.send("SCRIPT:loop")
    for _ in range(2):
        await harness.answer(await harness.until("permission.asked"))
    assert (await harness.until("turn.ended"))["status"] == "failed"


RUNNER = {"CLAUDE_CODE_ENVIRONMENT_RUNNER_VERSION": "9.9"}


@dialing
@pytest.mark.rules("S004-251", "S004-322", "S004-294", "S004-039")
@pytest.mark.parametrize("passed", [RUNNER])
async def test_a_session_is_killed_closed_and_forked_and_goes_on_each_time(
    harness: GatewayHarness, version: str, relay: Relay, cli_home: Path, model: ScriptedModel
) -> None:
    """Each process has its own token; each sends the runner's version in a header."""
    await harness.open("SCRIPT:text remember me")
    await harness.until("turn.ended")
    await a_killed_cli_is_noticed_and_resumed(harness, cli_home)
    harness.scene()
    await closing_ends_the_cli_and_the_next_message_resumes_it(harness, version)
    await a_fork_goes_its_own_way(harness, model)
    upgrades = relay.sockets()
    assert len({upgrade["authorization"] for upgrade in upgrades}) == len(upgrades) == 4
    assert {upgrade["x-environment-runner-version"] for upgrade in upgrades} == {"9.9"}


async def a_killed_cli_is_noticed_and_resumed(harness: GatewayHarness, cli_home: Path) -> None:
    async with asyncio.timeout(PATIENCE):
        while not written_down(cli_home, "Hello"):
            await asyncio.sleep(0.02)
    await harness.send("SCRIPT:slow 200")
    await harness.until("text.delta")
    os.kill(pid(harness), signal.SIGKILL)
    assert (await harness.until("turn.ended"))["status"] == "failed"
    exited = await harness.until("agent.exited")
    assert (exited["signal"], exited["expected"]) == (9, False)
    assert (await harness.turn("SCRIPT:echo"))["status"] == "completed"
    assert int(harness.texts()[-1].split()[2]) >= 3, "the model was shown what came before"
    await harness.raw()


async def closing_ends_the_cli_and_the_next_message_resumes_it(harness: GatewayHarness, version: str) -> None:
    process = pid(harness)
    await harness.do("close")
    exited = await harness.until("agent.exited")
    assert exited["expected"] and gone(process)
    how = (exited.get("code"), exited.get("signal"))
    # Older versions end themselves with code 143, which a sandbox cannot distinguish from SIGTERM.
    ways = {(0, None)} if since(version, "2.1.77") else {(143, None), (None, 15)}
    assert how in ways, "by close code where that ends it"
    assert (await harness.turn("SCRIPT:echo"))["status"] == "completed"
    assert harness.all("session.resumed")[0]["agent_session"] == harness.session


async def a_fork_goes_its_own_way(harness: GatewayHarness, model: ScriptedModel) -> None:
    parent = harness.session
    made = await harness.http.post(f"/v1/sessions/{parent}/fork", json={})
    await harness.leave()
    await harness.watch(made.json()["session"])
    await harness.send("SCRIPT:text forked")
    await harness.until(lambda line: line["type"] == "text" and line["text"].endswith("forked"))
    assert "SCRIPT:text remember me" in str(model.of("text")[-1].conversation), "it was shown what came before"
    assert harness.all("agent.ready")[-1]["agent_session"] == harness.session != parent


@dialing
async def test_a_conversation_that_was_never_written_down_begins_anew(harness: GatewayHarness) -> None:
    """Without connecting, the CLI prints that it does not know this conversation."""
    await harness.open(resume="11111111-2222-4333-8444-555555555555")
    await harness.send("SCRIPT:text anew")
    exited = await harness.until("agent.exited")
    assert exited["code"] == 1
    assert (await harness.until("turn.ended"))["status"] == "completed"
    assert harness.texts()[-1].endswith("anew")


@on_versions(NEWEST, first="2.1.121")
@pytest.mark.rules("S004-001")
async def test_a_version_that_refuses_is_shown_in_its_own_words_with_advice(
    harness: GatewayHarness, relay: Relay
) -> None:
    await harness.open("SCRIPT:text")
    failure = await harness.until("error")
    assert failure["code"] == "agent_gone"
    assert 'Error: --sdk-url rejected: host "127.0.0.1" is not an approved Anthropic endpoint.' in failure["message"]
    assert "set the session's link to stdio" in failure["message"]
    assert relay.heads == []
    await harness.until("turn.ended")
    changed = await harness.http.patch(f"/v1/sessions/{harness.session}/settings", json={"link": "stdio"})
    assert changed.status_code == 200
    assert (await harness.turn("SCRIPT:text now"))["status"] == "completed"


# --- the socket drops


async def lost_and_back(relay: Relay) -> dict[str, str]:
    count = len(relay.sockets())
    await relay.cut()
    await relay.connections(count + 1)
    return relay.sockets()[count]


@pytest.mark.slow
@dialing
@pytest.mark.rules("S004-040", "S004-276", "S004-277", "S004-279", "S004-331", "S004-236", "S004-270")
async def test_a_line_that_is_cut_again_and_again(
    harness: GatewayHarness, version: str, relay: Relay, model: ScriptedModel, cli_home: Path
) -> None:
    await harness.open("SCRIPT:text one")
    await harness.until("turn.ended")
    await cut_at_idle_it_comes_back_and_goes_on(harness, relay)
    harness.scene()
    await cut_in_mid_stream_the_answer_is_whole_and_there_once(harness, relay)
    harness.scene()
    await messages_sent_while_the_line_is_down_are_not_lost(harness, relay, model)
    harness.scene()
    await a_permission_raised_while_down_is_reported_and_an_interrupt_frees_it(harness, relay, model, cli_home)
    harness.scene()
    await a_permission_that_was_pending_at_the_drop_is_still_answered(harness, relay)
    if since(version, "2.1.77"):
        harness.scene()
        await newer_versions_try_for_much_longer(harness, relay)


async def cut_at_idle_it_comes_back_and_goes_on(harness: GatewayHarness, relay: Relay) -> None:
    upgrade = await lost_and_back(relay)
    last_record = harness.all("turn.ended")[-1]["id"].partition("/")[0]
    assert upgrade["x-last-request-id"] == last_record, "the uuid of its result"
    assert (await harness.turn("SCRIPT:text two"))["status"] == "completed"
    assert len(harness.all("agent.started")) == 1
    assert [text.split()[-1] for text in harness.texts()] == ["one", "two"]
    assert harness.all("notice") == [], "nothing was lost, nothing hangs"
    await harness.raw()


async def cut_in_mid_stream_the_answer_is_whole_and_there_once(harness: GatewayHarness, relay: Relay) -> None:
    await harness.send("SCRIPT:slow 24")
    await harness.until("text.delta")
    await lost_and_back(relay)
    assert (await harness.until("turn.ended"))["status"] == "completed"
    assert harness.texts() == ["tick " * 24]
    assert (await harness.turn("SCRIPT:text after"))["status"] == "completed"
    assert harness.all("agent.started") == []
    await harness.raw()


async def messages_sent_while_the_line_is_down_are_not_lost(
    harness: GatewayHarness, relay: Relay, model: ScriptedModel
) -> None:
    """The turn ends while the line is down: 2.1.120 sends the end again; for 2.1.37 it comes from the transcript."""
    await harness.send("SCRIPT:slow 8")
    await harness.until("text.delta")
    await relay.away()
    await model.wait_for(lambda request: "SCRIPT:slow 8" in str(request.since_last_answer), PATIENCE)
    await asyncio.sleep(2.0)
    await relay.listen()
    assert (await harness.until("turn.ended"))["status"] == "completed"
    assert harness.texts()[-1] == "tick " * 8
    assert (await harness.turn("SCRIPT:text after"))["status"] == "completed"
    assert harness.all("agent.started") == []
    await harness.raw()


async def a_permission_that_was_pending_at_the_drop_is_still_answered(harness: GatewayHarness, relay: Relay) -> None:
    target = harness.cwd / "made"
    await harness.send(f"SCRIPT:bash touch {target}")
    asked = await harness.until("permission.asked")
    count = len(relay.sockets())
    await relay.cut()
    await harness.answer(asked)
    await relay.connections(count + 1)
    assert (await harness.until("turn.ended"))["status"] == "completed"
    assert target.exists()
    assert harness.all("permission.cancelled") == []
    await harness.raw()


async def a_permission_raised_while_down_is_reported_and_an_interrupt_frees_it(
    harness: GatewayHarness, relay: Relay, model: ScriptedModel, cli_home: Path
) -> None:
    """A request that the CLI sends then is lost forever, in both versions. No tool was called before."""
    model.hold()
    await harness.send(f"SCRIPT:bash touch {harness.cwd / 'never'}")
    await model.wait_for(lambda request: "SCRIPT:bash" in str(request.since_last_answer), PATIENCE)
    await relay.away()
    model.release()
    async with asyncio.timeout(PATIENCE):
        while not written_down(cli_home, '"tool_use"'):
            await asyncio.sleep(0.05)
    await asyncio.sleep(1.0)
    await relay.listen()
    notice = await harness.until(lambda line: line["type"] == "notice" and line["kind"] == "link.back")
    assert notice["data"]["offers"] == ["interrupt"]
    assert notice["data"]["calls"] == [line["call"] for line in harness.all("tool.called")]
    await harness.do("interrupt")
    assert (await harness.until("turn.ended"))["status"] == "cancelled"
    assert not (harness.cwd / "never").exists()
    assert (await harness.turn("SCRIPT:text after"))["status"] == "completed"


@on_versions(OLDEST, last=OLDEST)
@pytest.mark.rules("S004-270", "S004-280")
async def test_a_cli_that_gives_up_is_told_as_exited(harness: GatewayHarness, relay: Relay) -> None:
    await harness.open("SCRIPT:text one")
    await harness.until("turn.ended")
    process = pid(harness)
    relay.slam = True
    await relay.cut()
    exited = await harness.until("agent.exited")
    assert not exited["expected"] and exited["code"] == 0 and gone(process)
    assert 1 <= len(relay.tries) <= 3
    relay.slam = False
    assert (await harness.turn("SCRIPT:echo"))["status"] == "completed"


async def newer_versions_try_for_much_longer(harness: GatewayHarness, relay: Relay) -> None:
    before = len(relay.sockets())
    await relay.away()
    await asyncio.sleep(9)
    assert harness.all("agent.exited") == []
    await relay.listen()
    await relay.connections(before + 1)
    assert (await harness.turn("SCRIPT:text two"))["status"] == "completed"


@dialing
@pytest.mark.long
@pytest.mark.rules("S004-274", "S004-282", "S004-283")
async def test_it_pings_and_takes_a_line_without_pongs_for_dead(harness: GatewayHarness, relay: Relay) -> None:
    await harness.open("SCRIPT:text one")
    await harness.until("turn.ended")
    async with asyncio.timeout(PATIENCE):
        while len(relay.pings) < 3:
            await asyncio.sleep(0.1)
    grows([later - before for before, later in itertools.pairwise(relay.pings)], 10, 10)
    assert len(relay.sockets()) == 1, "a ping that is answered changes nothing"
    relay.deaf = True
    await relay.connections(2)
    relay.deaf = False
    assert (await harness.turn("SCRIPT:text two"))["status"] == "completed"
    assert len(harness.all("agent.started")) == 1


# --- hybrid, headers, variables, by hand


@dialing
@pytest.mark.rules("S004-019", "S004-022", "S004-023", "S004-288", "S004-289", "S004-293", "S004-307")
@pytest.mark.parametrize("passed", [{"CLAUDE_CODE_POST_FOR_SESSION_INGRESS_V2": "1"}])
async def test_hybrid_it_hears_by_its_socket_and_speaks_by_post(harness: GatewayHarness, relay: Relay) -> None:
    target = harness.cwd / "made"
    await harness.open(f"SCRIPT:bash touch {target}")
    await harness.answer(await harness.until("permission.asked"))
    assert (await harness.until("turn.ended"))["status"] == "completed"
    assert target.exists()
    assert (await harness.turn("SCRIPT:long 20"))["status"] == "completed"
    relay.fail = 500
    await harness.send("SCRIPT:text again")
    await relay.tried(2)
    relay.fail = 0
    assert (await harness.until("turn.ended"))["status"] == "completed", "a POST that fails is tried again"
    assert relay.spoken == 0, "it says nothing on its socket"
    assert len(relay.heads) == len(relay.sockets()) + len(relay.posts()), "and fetches nothing"
    assert [head.split(" ")[1] for head in relay.heads if head.startswith("GET ")] == [f"/v1/cli/ws/{harness.session}"]
    assert set(relay.posts()) == {f"/v1/cli/session/{harness.session}/events"}
    bodies = [json.loads(body) for body in relay.bodies]
    assert len(bodies) == len(relay.posts())
    assert all(body.keys() == {"events"} and isinstance(body["events"], list) for body in bodies)
    await harness.raw()


@on_versions(NEWEST, first="2.1.200")
@pytest.mark.rules("S004-125")
async def test_a_version_that_takes_no_variables_says_so(harness: GatewayHarness) -> None:
    await harness.open("SCRIPT:text", settings={"link": "stdio"})
    await harness.until("turn.ended")
    url = f"/v1/sessions/{harness.session}/environment"
    refused = await harness.http.post(url, json={"variables": {"TEAM": "blue"}})
    assert (refused.status_code, refused.json()["error"]["code"]) == (502, "agent_refused")


@dialing
@pytest.mark.rules("S004-041", "S004-043", "S004-044", "S004-248", "S004-291", "S004-292")
async def test_a_cli_that_is_started_by_hand_serves_the_session(
    harness: GatewayHarness, cli_env: dict[str, str], relay: Relay, version: str
) -> None:
    """One session per way to pass the token; in the last session a process of ours continues."""
    for give in ("variable", "descriptor", "both"):
        if harness.session:
            await harness.leave()
        await harness.open(settings={"link": "stdio"})
        process = await by_hand(harness, cli_env, give)
        try:
            await harness.send("SCRIPT:text by hand")
            assert (await harness.until("turn.ended"))["status"] == "completed"
            assert len([head for head in relay.heads if f"/ws/{harness.session} " in head]) == 1
            await harness.do("close")
            if since(version, "2.1.77"):
                assert await asyncio.wait_for(process.wait(), PATIENCE) == 0
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
    assert (await harness.turn("SCRIPT:echo"))["status"] == "completed", "afterwards a process of ours goes on"
    await harness.raw()
