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
    desk: GatewayHarness, version: str, relay: Relay, model: ScriptedModel
) -> None:
    await a_plain_turn_with_deltas(desk, version, relay, model)
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
            desk.scene()
            await scene(desk, relay, model)
    assert len(relay.sockets()) == 1
    await desk.raw()


async def a_plain_turn_with_deltas(desk: GatewayHarness, version: str, relay: Relay, model: ScriptedModel) -> None:
    await desk.open("SCRIPT:long 40")
    end = await desk.until("turn.ended")
    assert end["status"] == "completed"
    assert "".join(line["text"] for line in desk.all("text.delta")) == desk.all("text")[0]["text"]
    (ready,) = desk.all("agent.ready")
    assert (ready["version"], ready["agent_session"]) == (version, desk.session)
    (upgrade,) = relay.sockets()
    assert upgrade["authorization"].startswith("Bearer fl_")
    assert "x-environment-runner-version" not in upgrade
    assert "x-last-request-id" not in upgrade
    assert relay.posts() == [] and relay.spoken > 0
    assert "placeholder" not in str([request.since_last_answer for request in model.requests])
    await desk.raw()


async def a_queue_of_three_prompts_is_three_turns_on_one_connection(
    desk: GatewayHarness, relay: Relay, model: ScriptedModel
) -> None:
    await desk.send("SCRIPT:slow 4")
    await desk.send("SCRIPT:text two")
    await desk.send("SCRIPT:text three")
    for _ in range(3):
        assert (await desk.until("turn.ended"))["status"] == "completed"
    assert [text.split()[-1] for text in desk.texts()] == ["tick", "two", "three"]
    assert (desk.all("agent.started"), len(relay.sockets())) == ([], 1), "the process of the turn before"
    first, *others = relay.lines()
    assert first["request"]["subtype"] == "initialize"
    prompts = [line for line in others if line["type"] == "user"]
    assert [line["session_id"] for line in prompts] == ["", desk.session, desk.session, desk.session]
    assert len({line["uuid"] for line in prompts if is_uuid(line["uuid"])}) == 4
    assert not gone(pid(desk)), "it waits for more"


async def an_interrupt_in_mid_stream_and_after_it_the_next_prompt(
    desk: GatewayHarness, relay: Relay, model: ScriptedModel
) -> None:
    await desk.send("SCRIPT:slow 200")
    await desk.until("text.delta")
    await desk.do("interrupt")
    assert (await desk.until("turn.ended"))["status"] == "cancelled"
    assert (await desk.turn("SCRIPT:text after"))["status"] == "completed"
    await desk.raw()


async def mode_and_model_change_while_it_runs(desk: GatewayHarness, relay: Relay, model: ScriptedModel) -> None:
    await desk.do("set_model", model="claude-haiku-4-5")
    await desk.do("set_mode", mode="acceptEdits")
    target = desk.cwd / "new.txt"
    await desk.turn(f"SCRIPT:write {target}")
    assert model.of("write")[-1].model == "claude-haiku-4-5"
    assert target.exists() and desk.all("permission.asked") == []


async def an_api_error_is_a_failed_turn(desk: GatewayHarness, relay: Relay, model: ScriptedModel) -> None:
    await desk.send("SCRIPT:error 529")
    assert (await desk.until("turn.ended"))["status"] == "failed"
    assert (await desk.turn("SCRIPT:text after"))["status"] == "completed"


async def a_variable_is_set_while_it_runs(desk: GatewayHarness, relay: Relay, model: ScriptedModel) -> None:
    url = f"/v1/sessions/{desk.session}/environment"
    assert (await desk.http.post(url, json={"variables": {"TEAM": "blue"}})).status_code == 200
    assert (await desk.http.post(url, json={"variables": {"PATH": "/tmp"}})).status_code == 403
    await desk.send("SCRIPT:bash echo team=$TEAM")
    await desk.answer(await desk.until("permission.asked"))
    await desk.until("turn.ended")
    assert "team=blue" in str(desk.all("tool.ended")[-1]["content"])
    kinds = {line["type"] for line in relay.lines()}
    assert kinds == {"user", "control_request", "control_response", "update_environment_variables"}


# --- permissions


async def a_tool_is_allowed_denied_and_changed(desk: GatewayHarness, relay: Relay, model: ScriptedModel) -> None:
    made = [desk.cwd / name for name in ("allowed", "denied", "asked", "changed")]
    await desk.send(f"SCRIPT:bash touch {made[0]}")
    await desk.answer(await desk.until("permission.asked"))
    await desk.until("turn.ended")
    await desk.send(f"SCRIPT:bash touch {made[1]}")
    await desk.answer(await desk.until("permission.asked"), "deny", message="because of the tests")
    await desk.until("turn.ended")
    assert "because of the tests" in str(model.of("bash")[-1].since_last_answer)
    await desk.send(f"SCRIPT:bash touch {made[2]}")
    asked = await desk.until("permission.asked")
    await desk.answer(asked, updated_input={**asked["input"], "command": f"touch {made[3]}"})
    await desk.until("turn.ended")
    assert [path.exists() for path in made] == [True, False, False, True]
    await desk.raw()


async def a_question_is_answered_and_a_plan_approved(desk: GatewayHarness, relay: Relay, model: ScriptedModel) -> None:
    await a_question_is_answered(desk, model)
    await desk.do("set_mode", mode="plan")
    await desk.send("SCRIPT:plan")
    await desk.answer(await desk.until("plan.proposed"))
    assert (await desk.until("turn.ended"))["status"] == "completed"


async def a_subagents_work_is_shown_inside_it(desk: GatewayHarness, relay: Relay, model: ScriptedModel) -> None:
    await desk.send(f"SCRIPT:subagent bash touch {desk.cwd / 'sub'}")
    asked = await desk.until("permission.asked")
    assert asked["subagent"] == desk.all("subagent.started")[0]["child"]
    await desk.answer(asked)
    await desk.until("subagent.ended")
    await desk.until("turn.ended")
    assert (desk.cwd / "sub").exists()
    await desk.raw()


async def the_policy_denies_through_its_hook_without_asking(
    desk: GatewayHarness, relay: Relay, model: ScriptedModel
) -> None:
    """The data folder is fenced off, whatever a person or a project would allow."""
    await desk.send(f"SCRIPT:bash cat {desk.gateway.data}/server.json")
    await desk.until("turn.ended")
    (resolved,) = desk.all("permission.resolved")
    assert (resolved["behavior"], resolved.get("asked", True)) == ("deny", False)


async def what_a_rule_allows_is_answered_with_the_input_that_was_asked_about(
    desk: GatewayHarness, relay: Relay, model: ScriptedModel
) -> None:
    """The last version that dials in asks for permission even though the hook has allowed the call."""
    command = f"touch {desk.cwd / 'made'}"
    await desk.send(f"SCRIPT:bash {command}")
    await desk.answer(await desk.until("permission.asked"), remember=["Bash(touch *)"])
    assert (await desk.until("turn.ended"))["status"] == "completed"
    before = len(relay.told)
    assert (await desk.turn(f"SCRIPT:bash {command}"))["status"] == "completed"
    assert len(desk.all("permission.asked")) == 1
    (line,) = [part for part in bytes(relay.told[before:]).splitlines(keepends=True) if b'"behavior"' in part]
    assert line.endswith(b"\n")
    answer = json.loads(line[line.index(b"{") :])["response"]["response"]
    assert (answer["behavior"], answer["updatedInput"]) == ("allow", desk.all("tool.called")[-1]["input"])


# --- the process


@dialing
async def test_the_limit_of_turns_is_a_failed_turn(desk: GatewayHarness) -> None:
    await desk.open(settings={"max_turns": 2})
    await desk.send("SCRIPT:loop")
    for _ in range(2):
        await desk.answer(await desk.until("permission.asked"))
    assert (await desk.until("turn.ended"))["status"] == "failed"


RUNNER = {"CLAUDE_CODE_ENVIRONMENT_RUNNER_VERSION": "9.9"}


@dialing
@pytest.mark.rules("S004-251", "S004-322", "S004-294", "S004-039")
@pytest.mark.parametrize("passed", [RUNNER])
async def test_a_session_is_killed_closed_and_forked_and_goes_on_each_time(
    desk: GatewayHarness, version: str, relay: Relay, cli_home: Path, model: ScriptedModel
) -> None:
    """Each process has its own token; each sends the runner's version in a header."""
    await desk.open("SCRIPT:text remember me")
    await desk.until("turn.ended")
    await a_killed_cli_is_noticed_and_resumed(desk, cli_home)
    desk.scene()
    await closing_ends_the_cli_and_the_next_message_resumes_it(desk, version)
    await a_fork_goes_its_own_way(desk, model)
    upgrades = relay.sockets()
    assert len({upgrade["authorization"] for upgrade in upgrades}) == len(upgrades) == 4
    assert {upgrade["x-environment-runner-version"] for upgrade in upgrades} == {"9.9"}


async def a_killed_cli_is_noticed_and_resumed(desk: GatewayHarness, cli_home: Path) -> None:
    async with asyncio.timeout(PATIENCE):
        while not written_down(cli_home, "Hello"):
            await asyncio.sleep(0.02)
    await desk.send("SCRIPT:slow 200")
    await desk.until("text.delta")
    os.kill(pid(desk), signal.SIGKILL)
    assert (await desk.until("turn.ended"))["status"] == "failed"
    exited = await desk.until("agent.exited")
    assert (exited["signal"], exited["expected"]) == (9, False)
    assert (await desk.turn("SCRIPT:echo"))["status"] == "completed"
    assert int(desk.texts()[-1].split()[2]) >= 3, "the model was shown what came before"
    await desk.raw()


async def closing_ends_the_cli_and_the_next_message_resumes_it(desk: GatewayHarness, version: str) -> None:
    process = pid(desk)
    await desk.do("close")
    exited = await desk.until("agent.exited")
    assert exited["expected"] and gone(process)
    how = (exited.get("code"), exited.get("signal"))
    # Older versions end themselves with code 143, which a sandbox cannot distinguish from SIGTERM.
    ways = {(0, None)} if since(version, "2.1.77") else {(143, None), (None, 15)}
    assert how in ways, "by close code where that ends it"
    assert (await desk.turn("SCRIPT:echo"))["status"] == "completed"
    assert desk.all("session.resumed")[0]["agent_session"] == desk.session


async def a_fork_goes_its_own_way(desk: GatewayHarness, model: ScriptedModel) -> None:
    parent = desk.session
    made = await desk.http.post(f"/v1/sessions/{parent}/fork", json={})
    await desk.leave()
    await desk.watch(made.json()["session"])
    await desk.send("SCRIPT:text forked")
    await desk.until(lambda line: line["type"] == "text" and line["text"].endswith("forked"))
    assert "SCRIPT:text remember me" in str(model.of("text")[-1].conversation), "it was shown what came before"
    assert desk.all("agent.ready")[-1]["agent_session"] == desk.session != parent


@dialing
async def test_a_conversation_that_was_never_written_down_begins_anew(desk: GatewayHarness) -> None:
    """Without connecting, the CLI prints that it does not know this conversation."""
    await desk.open(resume="11111111-2222-4333-8444-555555555555")
    await desk.send("SCRIPT:text anew")
    exited = await desk.until("agent.exited")
    assert exited["code"] == 1
    assert (await desk.until("turn.ended"))["status"] == "completed"
    assert desk.texts()[-1].endswith("anew")


@on_versions(NEWEST, first="2.1.121")
@pytest.mark.rules("S004-001")
async def test_a_version_that_refuses_is_shown_in_its_own_words_with_advice(desk: GatewayHarness, relay: Relay) -> None:
    await desk.open("SCRIPT:text")
    failure = await desk.until("error")
    assert failure["code"] == "agent_gone"
    assert 'Error: --sdk-url rejected: host "127.0.0.1" is not an approved Anthropic endpoint.' in failure["message"]
    assert "set the session's link to stdio" in failure["message"]
    assert relay.heads == []
    await desk.until("turn.ended")
    changed = await desk.http.patch(f"/v1/sessions/{desk.session}/settings", json={"link": "stdio"})
    assert changed.status_code == 200
    assert (await desk.turn("SCRIPT:text now"))["status"] == "completed"


# --- the socket drops


async def lost_and_back(relay: Relay) -> dict[str, str]:
    count = len(relay.sockets())
    await relay.cut()
    await relay.connections(count + 1)
    return relay.sockets()[count]


@dialing
@pytest.mark.rules("S004-040", "S004-276", "S004-277", "S004-279", "S004-331", "S004-236", "S004-270")
async def test_a_line_that_is_cut_again_and_again(
    desk: GatewayHarness, version: str, relay: Relay, model: ScriptedModel, cli_home: Path
) -> None:
    await desk.open("SCRIPT:text one")
    await desk.until("turn.ended")
    await cut_at_idle_it_comes_back_and_goes_on(desk, relay)
    desk.scene()
    await cut_in_mid_stream_the_answer_is_whole_and_there_once(desk, relay)
    desk.scene()
    await messages_sent_while_the_line_is_down_are_not_lost(desk, relay, model)
    desk.scene()
    await a_permission_raised_while_down_is_reported_and_an_interrupt_frees_it(desk, relay, model, cli_home)
    desk.scene()
    await a_permission_that_was_pending_at_the_drop_is_still_answered(desk, relay)
    if since(version, "2.1.77"):
        desk.scene()
        await newer_versions_try_for_much_longer(desk, relay)


async def cut_at_idle_it_comes_back_and_goes_on(desk: GatewayHarness, relay: Relay) -> None:
    upgrade = await lost_and_back(relay)
    last_record = desk.all("turn.ended")[-1]["id"].partition("/")[0]
    assert upgrade["x-last-request-id"] == last_record, "the uuid of its result"
    assert (await desk.turn("SCRIPT:text two"))["status"] == "completed"
    assert len(desk.all("agent.started")) == 1
    assert [text.split()[-1] for text in desk.texts()] == ["one", "two"]
    assert desk.all("notice") == [], "nothing was lost, nothing hangs"
    await desk.raw()


async def cut_in_mid_stream_the_answer_is_whole_and_there_once(desk: GatewayHarness, relay: Relay) -> None:
    await desk.send("SCRIPT:slow 24")
    await desk.until("text.delta")
    await lost_and_back(relay)
    assert (await desk.until("turn.ended"))["status"] == "completed"
    assert desk.texts() == ["tick " * 24]
    assert (await desk.turn("SCRIPT:text after"))["status"] == "completed"
    assert desk.all("agent.started") == []
    await desk.raw()


async def messages_sent_while_the_line_is_down_are_not_lost(
    desk: GatewayHarness, relay: Relay, model: ScriptedModel
) -> None:
    """The turn ends while the line is down: 2.1.120 sends the end again; for 2.1.37 it comes from the transcript."""
    await desk.send("SCRIPT:slow 8")
    await desk.until("text.delta")
    await relay.away()
    await model.wait_for(lambda request: "SCRIPT:slow 8" in str(request.since_last_answer), PATIENCE)
    await asyncio.sleep(2.0)
    await relay.listen()
    assert (await desk.until("turn.ended"))["status"] == "completed"
    assert desk.texts()[-1] == "tick " * 8
    assert (await desk.turn("SCRIPT:text after"))["status"] == "completed"
    assert desk.all("agent.started") == []
    await desk.raw()


async def a_permission_that_was_pending_at_the_drop_is_still_answered(desk: GatewayHarness, relay: Relay) -> None:
    target = desk.cwd / "made"
    await desk.send(f"SCRIPT:bash touch {target}")
    asked = await desk.until("permission.asked")
    count = len(relay.sockets())
    await relay.cut()
    await desk.answer(asked)
    await relay.connections(count + 1)
    assert (await desk.until("turn.ended"))["status"] == "completed"
    assert target.exists()
    assert desk.all("permission.cancelled") == []
    await desk.raw()


async def a_permission_raised_while_down_is_reported_and_an_interrupt_frees_it(
    desk: GatewayHarness, relay: Relay, model: ScriptedModel, cli_home: Path
) -> None:
    """A request that the CLI sends then is lost forever, in both versions. No tool was called before."""
    model.hold()
    await desk.send(f"SCRIPT:bash touch {desk.cwd / 'never'}")
    await model.wait_for(lambda request: "SCRIPT:bash" in str(request.since_last_answer), PATIENCE)
    await relay.away()
    model.release()
    async with asyncio.timeout(PATIENCE):
        while not written_down(cli_home, '"tool_use"'):
            await asyncio.sleep(0.05)
    await asyncio.sleep(1.0)
    await relay.listen()
    notice = await desk.until(lambda line: line["type"] == "notice" and line["kind"] == "link.back")
    assert notice["data"]["offers"] == ["interrupt"]
    assert notice["data"]["calls"] == [line["call"] for line in desk.all("tool.called")]
    await desk.do("interrupt")
    assert (await desk.until("turn.ended"))["status"] == "cancelled"
    assert not (desk.cwd / "never").exists()
    assert (await desk.turn("SCRIPT:text after"))["status"] == "completed"


@on_versions(OLDEST, last=OLDEST)
@pytest.mark.rules("S004-270", "S004-280")
async def test_a_cli_that_gives_up_is_told_as_exited(desk: GatewayHarness, relay: Relay) -> None:
    await desk.open("SCRIPT:text one")
    await desk.until("turn.ended")
    process = pid(desk)
    relay.slam = True
    await relay.cut()
    exited = await desk.until("agent.exited")
    assert not exited["expected"] and exited["code"] == 0 and gone(process)
    assert 1 <= len(relay.tries) <= 3
    relay.slam = False
    assert (await desk.turn("SCRIPT:echo"))["status"] == "completed"


async def newer_versions_try_for_much_longer(desk: GatewayHarness, relay: Relay) -> None:
    before = len(relay.sockets())
    await relay.away()
    await asyncio.sleep(9)
    assert desk.all("agent.exited") == []
    await relay.listen()
    await relay.connections(before + 1)
    assert (await desk.turn("SCRIPT:text two"))["status"] == "completed"


@dialing
@pytest.mark.long
@pytest.mark.rules("S004-274", "S004-282", "S004-283")
async def test_it_pings_and_takes_a_line_without_pongs_for_dead(desk: GatewayHarness, relay: Relay) -> None:
    await desk.open("SCRIPT:text one")
    await desk.until("turn.ended")
    async with asyncio.timeout(PATIENCE):
        while len(relay.pings) < 3:
            await asyncio.sleep(0.1)
    grows([later - before for before, later in itertools.pairwise(relay.pings)], 10, 10)
    assert len(relay.sockets()) == 1, "a ping that is answered changes nothing"
    relay.deaf = True
    await relay.connections(2)
    relay.deaf = False
    assert (await desk.turn("SCRIPT:text two"))["status"] == "completed"
    assert len(desk.all("agent.started")) == 1


# --- hybrid, headers, variables, by hand


@dialing
@pytest.mark.rules("S004-019", "S004-022", "S004-023", "S004-288", "S004-289", "S004-293", "S004-307")
@pytest.mark.parametrize("passed", [{"CLAUDE_CODE_POST_FOR_SESSION_INGRESS_V2": "1"}])
async def test_hybrid_it_hears_by_its_socket_and_speaks_by_post(desk: GatewayHarness, relay: Relay) -> None:
    target = desk.cwd / "made"
    await desk.open(f"SCRIPT:bash touch {target}")
    await desk.answer(await desk.until("permission.asked"))
    assert (await desk.until("turn.ended"))["status"] == "completed"
    assert target.exists()
    assert (await desk.turn("SCRIPT:long 20"))["status"] == "completed"
    relay.fail = 500
    await desk.send("SCRIPT:text again")
    await relay.tried(2)
    relay.fail = 0
    assert (await desk.until("turn.ended"))["status"] == "completed", "a POST that fails is tried again"
    assert relay.spoken == 0, "it says nothing on its socket"
    assert len(relay.heads) == len(relay.sockets()) + len(relay.posts()), "and fetches nothing"
    assert [head.split(" ")[1] for head in relay.heads if head.startswith("GET ")] == [f"/v1/cli/ws/{desk.session}"]
    assert set(relay.posts()) == {f"/v1/cli/session/{desk.session}/events"}
    bodies = [json.loads(body) for body in relay.bodies]
    assert len(bodies) == len(relay.posts())
    assert all(body.keys() == {"events"} and isinstance(body["events"], list) for body in bodies)
    await desk.raw()


@on_versions(NEWEST, first="2.1.200")
@pytest.mark.rules("S004-125")
async def test_a_version_that_takes_no_variables_says_so(desk: GatewayHarness) -> None:
    await desk.open("SCRIPT:text", settings={"link": "stdio"})
    await desk.until("turn.ended")
    url = f"/v1/sessions/{desk.session}/environment"
    refused = await desk.http.post(url, json={"variables": {"TEAM": "blue"}})
    assert (refused.status_code, refused.json()["error"]["code"]) == (502, "agent_refused")


@dialing
@pytest.mark.rules("S004-041", "S004-043", "S004-044", "S004-248", "S004-291", "S004-292")
async def test_a_cli_that_is_started_by_hand_serves_the_session(
    desk: GatewayHarness, cli_env: dict[str, str], relay: Relay, version: str
) -> None:
    """One session per way to pass the token; in the last session a process of ours continues."""
    for give in ("variable", "descriptor", "both"):
        if desk.session:
            await desk.leave()
        await desk.open(settings={"link": "stdio"})
        process = await by_hand(desk, cli_env, give)
        try:
            await desk.send("SCRIPT:text by hand")
            assert (await desk.until("turn.ended"))["status"] == "completed"
            assert len([head for head in relay.heads if f"/ws/{desk.session} " in head]) == 1
            await desk.do("close")
            if since(version, "2.1.77"):
                assert await asyncio.wait_for(process.wait(), PATIENCE) == 0
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
    assert (await desk.turn("SCRIPT:echo"))["status"] == "completed", "afterwards a process of ours goes on"
    await desk.raw()
