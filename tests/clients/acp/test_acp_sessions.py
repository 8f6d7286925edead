"""Sessions over /acp: new, prompt, load, resume, list, close, delete, and the settings."""

import pytest

from clients.acp.acp_harness import AcpHarness, CallRefused, Editor
from fairlead.model import commands as cmd
from fairlead.model import events as ev
from fairlead.model.agents import Exit
from fairlead.model.content import ImageBlock, TextBlock
from fairlead.model.errors import AgentMissing
from fairlead.model.ids import SessionId
from sessions.harness import SESSION, FakeAgent

ERROR = {"subtype": "error_during_execution", "is_error": True, "errors": ["the model is away"]}


async def running(acp: AcpHarness, editor: Editor, text: str = "go") -> tuple[SessionId, FakeAgent, int]:
    """A session in which the agent works on a prompt of this editor."""
    session = await acp.new(editor)
    prompt = await editor.prompt(session, text)
    return session, await acp.agent(), prompt


async def refused(editor: Editor, method: str, **params: object) -> tuple[int, str]:
    with pytest.raises(CallRefused) as error:
        await editor.call(method, **params)
    return error.value.error["code"], error.value.error.get("data", {}).get("code", "")


async def test_a_prompt_is_answered_after_the_updates_of_its_turn(acp: AcpHarness) -> None:
    async with acp.editor() as editor:
        session, agent, prompt = await running(acp, editor)
        await agent.text("Hello.")
        await agent.result()
        assert await editor.answer_to(prompt) == {"stopReason": "end_turn"}
        assert editor.received[-1]["id"] == prompt, "nothing of the turn follows its answer"
        assert editor.of(session).text() == "Hello."
        assert editor.of(session).text("user_message_chunk") == "", "an own prompt is not repeated"


async def test_a_prompt_fails_as_its_turn_does(acp: AcpHarness) -> None:
    async with acp.editor() as editor:
        session, agent, prompt = await running(acp, editor)
        await agent.result(**ERROR)
        with pytest.raises(CallRefused, match="the model is away") as error:
            await editor.answer_to(prompt)
        assert error.value.error["code"] == -32603
        assert error.value.error["data"] == {"code": "turn_failed", "reason": "error_during_execution"}
        again = await editor.prompt(session, "again")
        await agent.prompted()
        await agent.result(subtype="error_max_turns", is_error=True)
        assert await editor.answer_to(again) == {"stopReason": "max_turn_requests"}
        assert editor.of(session).text("user_message_chunk") == "", "not even when the agent was ready for it"


async def test_another_clients_turn_is_shown_and_a_prompt_waits_for_its_own(acp: AcpHarness) -> None:
    async with acp.editor() as one, acp.editor() as two:
        session, agent, first = await running(acp, one, "first")
        await two.load(session)
        second = await two.prompt(session, "second")
        await two.until(lambda: two.of(session).text("user_message_chunk") == "first")
        await agent.text("One.")
        await agent.result()
        assert await one.answer_to(first) == {"stopReason": "end_turn"}
        assert await agent.prompted() == "second"
        assert not two.is_answered(second), "only the first turn has ended"
        await agent.text("Two.")
        await agent.result()
        assert await two.answer_to(second) == {"stopReason": "end_turn"}
        await one.until(lambda: one.of(session).text() == "One.Two.")
        assert one.of(session).text("user_message_chunk") == "second"


async def test_a_cancelled_prompt_is_answered_as_cancelled(acp: AcpHarness) -> None:
    async with acp.editor() as editor:
        session, agent, prompt = await running(acp, editor)
        await editor.notify("session/cancel", sessionId=session)
        await acp.core.until(lambda: ("interrupt", None) in agent.requests)
        await agent.result(subtype="error_during_execution", is_error=True)
        assert await editor.answer_to(prompt) == {"stopReason": "cancelled"}


async def test_cancel_withdraws_a_waiting_prompt_and_leaves_the_turn_of_another_client(acp: AcpHarness) -> None:
    async with acp.editor() as one, acp.editor() as two:
        session, agent, first = await running(acp, one, "first")
        await two.load(session)
        second = await two.prompt(session, "second")
        await acp.core.until(lambda: len(acp.core.state(session).queue) == 1)
        await two.notify("session/cancel", sessionId=session)
        assert await two.answer_to(second) == {"stopReason": "cancelled"}
        await two.settled(session)
        assert agent.requests == []
        third = await two.prompt(session, "third")
        await acp.core.until(lambda: len(acp.core.state(session).queue) == 1)
        await two.notify("$/cancel_request", requestId=third)
        assert await two.answer_to(third) == {"stopReason": "cancelled"}
        await two.settled(session)
        assert agent.requests == []
        assert not one.is_answered(first)
        # Without a prompt of its own, a cancel means the turn that it sees.
        await two.notify("session/cancel", sessionId=session)
        await acp.core.until(lambda: ("interrupt", None) in agent.requests)


async def test_load_replays_the_log_before_its_answer_and_goes_on_live(acp: AcpHarness) -> None:
    async with acp.editor() as one, acp.editor() as two:
        session, agent, prompt = await running(acp, one, "look")
        await agent.text("Hello.")
        await agent.call("toolu_1", "Read", file_path="a.txt")
        await agent.result_of("toolu_1", "text")
        answer = await two.load(session)
        assert two.received[-1]["result"] == answer, "the history comes before the answer"
        shown = two.of(session)
        assert [message.text for message in shown.messages] == ["look", "Hello."]
        assert shown.calls["toolu_1"]["status"] == "completed"
        assert shown.calls["toolu_1"]["locations"] == [{"path": str(acp.core.cwd / "a.txt")}]
        await agent.text("Bye.")
        await agent.result()
        await one.answer_to(prompt)
        await two.until(lambda: shown.text() == "Hello.Bye.")
        assert shown.calls == one.of(session).calls


async def test_a_session_is_loaded_again_while_its_prompt_is_open(acp: AcpHarness) -> None:
    async with acp.editor() as editor:
        session, agent, prompt = await running(acp, editor, "look")
        await agent.text("Hello.")
        await editor.until(lambda: editor.of(session).text() == "Hello.")
        await editor.load(session)
        assert [message.text for message in editor.of(session).messages] == ["look", "Hello."]
        await agent.result()
        assert await editor.answer_to(prompt) == {"stopReason": "end_turn"}
        await editor.load(session)
        assert editor.received[-1]["id"] != prompt, "the answer is not repeated"


async def test_resume_sends_no_history_or_only_what_the_client_lacks(acp: AcpHarness) -> None:
    async with acp.editor() as one, acp.editor() as two:
        session, agent, _ = await running(acp, one)
        await agent.text("Hello.")
        await one.until(lambda: one.of(session).text() == "Hello.")
        place = (await two.resume(session))["_meta"]["fairlead"]
        position = two.of(session).seq
        assert two.of(session).messages == []
        await agent.text("Bye.")
        await two.until(lambda: two.of(session).text() == "Bye.")
        missed = {"after": place["seq"], "logId": place["logId"]}
        assert position <= place["seq"]
        async with acp.editor() as three:
            answer = await three.resume(session, _meta={"fairlead": missed})
            assert answer["_meta"]["fairlead"]["verdict"] == "ok"
            assert three.of(session).text() == "Bye."
        async with acp.editor() as four:
            answer = await four.resume(session, _meta={"fairlead": missed | {"logId": "another"}})
            assert answer["_meta"]["fairlead"]["verdict"] == "gap"
            assert four.of(session).text() == "Hello.Bye."


async def test_the_list_has_titles_folders_and_pages(acp: AcpHarness) -> None:
    async with acp.editor() as editor:
        for number in range(60):
            await acp.core.open(SessionId(f"5e551011-0000-4000-8000-{number:012d}"), title=f"Number {number}")
        first = await editor.call("session/list")
        rest = await editor.call("session/list", cursor=first["nextCursor"])
        listed = [*first["sessions"], *rest["sessions"]]
        assert len(listed) == 60 and "nextCursor" not in rest
        assert {session["title"] for session in listed} == {f"Number {number}" for number in range(60)}
        assert {session["cwd"] for session in listed} == {str(acp.core.cwd)}
        assert (await editor.call("session/list", cwd="/somewhere"))["sessions"] == []


async def test_close_stops_the_updates_and_not_the_agent(acp: AcpHarness) -> None:
    async with acp.editor() as one, acp.editor() as two:
        session, agent, prompt = await running(acp, one)
        await two.load(session)
        assert await one.call("session/close", sessionId=session) == {}
        assert await one.answer_to(prompt) == {"stopReason": "cancelled"}
        count = len(one.received)
        await agent.text("Still here.")
        await two.until(lambda: two.of(session).text() == "Still here.")
        await one.settled(session)
        assert len(one.received) == count + 1 and not agent.stopping.is_set()
        assert await refused(one, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "x"}]) == (
            -32002,
            "bad_message",
        )


async def test_a_deleted_session_is_gone(acp: AcpHarness) -> None:
    async with acp.editor() as editor:
        session, agent, ended = await running(acp, editor)
        await agent.result()
        await editor.answer_to(ended)
        prompts = [await editor.prompt(session, text) for text in ("running", "waiting")]
        await agent.prompted()
        await acp.core.until(lambda: len(acp.core.state(session).queue) == 1)
        assert await editor.call("session/delete", sessionId=session) == {}
        with pytest.raises(CallRefused):
            await editor.answer_to(prompts[0])
        assert await editor.answer_to(prompts[1]) == {"stopReason": "cancelled"}
        assert (await editor.call("session/list"))["sessions"] == []
        assert await refused(editor, "session/load", sessionId=session, cwd="/", mcpServers=[]) == (-32002, "not_found")


async def test_modes_and_options_are_set_and_shown_to_all(acp: AcpHarness) -> None:
    async with acp.editor() as one, acp.editor() as two:
        session = await acp.new(one)
        answer = await two.load(session)
        assert [mode["id"] for mode in answer["modes"]["availableModes"]] == ["default", "acceptEdits", "plan"]
        assert await one.call("session/set_mode", sessionId=session, modeId="plan") == {}
        await two.until(lambda: two.of(session).mode == "plan")
        for option, value in (("mode", "acceptEdits"), ("model", "opus-9"), ("thought_level", "high")):
            answer = await one.call("session/set_config_option", sessionId=session, configId=option, value=value)
            now = {option["id"]: option["currentValue"] for option in answer["configOptions"]}
            assert now[option] == value
            await two.until(lambda answer=answer: two.of(session).options == answer["configOptions"])  # type: ignore[misc]
        assert two.of(session).mode == "acceptEdits"
        settings = acp.core.state(session).settings
        assert (settings.mode, settings.model, settings.thinking) == ("acceptEdits", "opus-9", 32_000)
        await one.call("session/set_config_option", sessionId=session, configId="model", value="default")
        assert acp.core.state(session).settings.model == ""
        for option, wrong in (("mode", "bypassPermissions"), ("colour", "red"), ("thought_level", "huge"), ("mode", 1)):
            call = {"sessionId": session, "configId": option, "value": wrong}
            assert (await refused(one, "session/set_config_option", **call))[0] == -32602


async def test_the_blocks_of_a_prompt_reach_the_agent(acp: AcpHarness) -> None:
    async with acp.editor() as editor:
        session = await acp.new(editor)
        inside = (acp.core.cwd / "src" / "a b.py").as_uri()
        blocks = [
            {"type": "text", "text": "look"},
            {"type": "image", "data": "aGk=", "mimeType": "image/png"},
            {"type": "resource_link", "name": "a b.py", "uri": inside},
            {"type": "resource_link", "name": "site", "uri": "https://example.org/x"},
            {"type": "resource", "resource": {"uri": "file:///etc/hosts", "text": "127.0.0.1"}},
        ]
        await editor.start("session/prompt", sessionId=session, prompt=blocks)
        await acp.agent()
        sent = next(event for event in await acp.core.log(session) if isinstance(event, ev.UserMessage))
        assert sent.content == (
            TextBlock("look"),
            ImageBlock({"type": "base64", "media_type": "image/png", "data": "aGk="}),
            TextBlock("@src/a b.py"),
            TextBlock("https://example.org/x"),
            TextBlock('\n<file path="/etc/hosts">\n127.0.0.1\n</file>\n'),
        )
        audio = [{"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}]
        assert (await refused(editor, "session/prompt", sessionId=session, prompt=audio))[0] == -32602
        assert (await refused(editor, "session/prompt", sessionId=session, prompt=[]))[0] == -32602


async def test_the_servers_of_an_editor_are_left_out_unless_the_settings_name_them(acp: AcpHarness) -> None:
    acp.core.services.mcp_configs.update(files={})  # type: ignore[attr-defined]  # a dict in this harness
    servers: list[dict[str, object]] = [
        {"name": name, "command": "/bin/evil", "args": [], "env": []} for name in ("files", "evil")
    ]
    chatting = await acp.gateway.token("view", "chat", "approve")
    for token, used, left_out in (("", ("files",), ["evil"]), (chatting, (), ["files", "evil"])):
        async with acp.editor(token=token) as editor:
            answer = await editor.call("session/new", cwd=str(acp.core.cwd), mcpServers=servers)
            session = answer["sessionId"]
            assert answer["_meta"]["fairlead"]["mcpServersLeftOut"] == left_out
            assert acp.core.state(session).settings.mcp_servers == used
            shown = editor.of(session)
            await editor.until(lambda shown=shown: len(shown.notices) == 1)  # type: ignore[misc]
            assert shown.notices[0]["description"] == ", ".join(left_out)
            names = [message.get("id", message.get("method")) for message in editor.received]
            assert names[-1] == "session/update", "the notice follows the answer that names the session"


async def test_a_folder_outside_the_roots_is_refused_with_a_reason(acp: AcpHarness) -> None:
    async with acp.editor() as editor:
        assert await refused(editor, "session/new", cwd="/", mcpServers=[]) == (-32602, "outside_roots")
        assert (await refused(editor, "session/new", cwd="relative", mcpServers=[]))[0] == -32602
        more = {"cwd": str(acp.core.cwd), "mcpServers": [], "additionalDirectories": ["/etc"]}
        assert await refused(editor, "session/new", **more) == (-32602, "outside_roots")
        assert await refused(editor, "session/new", cwd=str(acp.core.cwd / "none"), mcpServers=[]) == (
            -32002,
            "not_found",
        )
        assert (await editor.call("session/list"))["sessions"] == []


async def test_the_agent_of_new_sessions_is_named_in_the_address(acp: AcpHarness) -> None:
    async with acp.editor(query="?agent=said") as editor:
        assert acp.core.state(await acp.new(editor)).agent == "said"
    async with acp.editor(query="?agent=other") as editor:
        assert (await refused(editor, "session/new", cwd=str(acp.core.cwd), mcpServers=[]))[0] in (-32602, -32002)


async def test_one_socket_has_several_sessions(acp: AcpHarness) -> None:
    async with acp.editor() as editor:
        one, first, prompt = await running(acp, editor)
        two = await acp.new(editor)
        other = await editor.prompt(two, "go")
        second = await acp.agent(2)
        await first.text("One.")
        await second.text("Two.")
        await second.result()
        assert await editor.answer_to(other) == {"stopReason": "end_turn"}
        assert not editor.is_answered(prompt)
        await first.result()
        assert await editor.answer_to(prompt) == {"stopReason": "end_turn"}
        assert (editor.of(one).text(), editor.of(two).text()) == ("One.", "Two.")


async def test_a_session_that_another_client_made_is_found_and_renamed(acp: AcpHarness) -> None:
    await acp.core.open()
    async with acp.editor() as editor:
        await editor.load(SESSION)
        await acp.core.do(cmd.Rename(session=SESSION, title="A new name"))
        await editor.until(lambda: editor.of(SESSION).info.get("title") == "A new name")
        (listed,) = (await editor.call("session/list"))["sessions"]
        assert (listed["sessionId"], listed["title"]) == (SESSION, "A new name")


async def test_an_editor_that_does_not_read_gets_everything_in_order_when_it_does(acp: AcpHarness) -> None:
    async with acp.editor() as fast, acp.editor() as slow:
        session, agent, prompt = await running(acp, slow)
        await fast.load(session)
        slow.socket.transport.pause_reading()
        for number in range(80):
            await agent.text(f"{number}:" + "x" * 200_000)
        await agent.result()
        await fast.until(lambda: "79:x" in fast.of(session).text())
        watchers = acp.core.registry.feed(session)._watchers()
        assert [watcher.live for watcher in watchers].count(False) == 1, "the other one lags"
        slow.socket.transport.resume_reading()
        assert await slow.answer_to(prompt) == {"stopReason": "end_turn"}
        assert slow.received[-1]["id"] == prompt
        assert slow.of(session).text() == fast.of(session).text()


async def test_a_prompt_is_answered_when_the_agent_cannot_start_or_dies(acp: AcpHarness) -> None:
    async with acp.editor() as editor:
        session, agent, prompt = await running(acp, editor)
        await agent.die(Exit(code=3))
        with pytest.raises(CallRefused, match="exited with code 3"):
            await editor.answer_to(prompt)
        acp.core.kind.failures.append(AgentMissing("There is no agent: install it."))
        with pytest.raises(CallRefused, match="install it"):
            await editor.answer_to(await editor.prompt(session, "again"))
        assert any("install it" in notice["title"] for notice in editor.of(session).notices)
