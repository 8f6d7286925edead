"""The scripted model API over HTTP, as a client of the Messages API sees it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from fairlead.agents.scripts import ScriptText, ToolUse
from fairlead_testing.model_api import ANSWERS, ModelRequest, ScriptedModel
from local_http import local_client
from patience import PATIENCE

TOOLS: list[dict[str, Any]] = [{"name": name, "input_schema": {}} for name in ("Agent", "Bash", "Write")]


@pytest.fixture
async def model(tmp_path: Path) -> AsyncIterator[ScriptedModel]:
    async with ScriptedModel(log=tmp_path / "log.jsonl") as serving:
        yield serving


def body(text: str, *more: dict[str, Any], **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}, *more]
    return {"model": "m", "max_tokens": 100, "messages": messages, "tools": TOOLS, **fields}


async def post(model: ScriptedModel, request: dict[str, Any]) -> httpx2.Response:
    async with local_client(base_url=model.url) as client:
        return await client.post("/v1/messages?beta=true", json=request)


async def stream(model: ScriptedModel, request: dict[str, Any]) -> list[dict[str, Any]]:
    response = await post(model, {**request, "stream": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    events = []
    for chunk in response.text.split("\n\n"):
        if chunk:
            name, data = chunk.split("\n")
            event = json.loads(data.removeprefix("data: "))
            assert name == f"event: {event['type']}"
            events.append(event)
    return events


async def read_all(chunks: AsyncIterator[bytes]) -> None:
    async for _ in chunks:
        pass


def kinds(events: list[dict[str, Any]]) -> list[str]:
    """The events' types in order, with the deltas of one block merged."""
    names = [str(e["type"]) for e in events]
    return [n for i, n in enumerate(names) if i == 0 or n != names[i - 1]]


async def test_a_held_model_takes_a_request_and_answers_it_when_released(model: ScriptedModel) -> None:
    model.hold()
    answering = asyncio.create_task(post(model, body("SCRIPT:text hello")))
    await model.wait_for(lambda request: request.script == "text")
    assert not answering.done()
    model.release()
    assert "hello" in (await answering).text


async def test_scripted_answers_come_in_order_and_may_be_empty(model: ScriptedModel) -> None:
    model.answers = [[ScriptText("Looking."), ToolUse("Bash", {"command": "ls"})], []]
    prompt = f"SCRIPT:{ANSWERS}"
    first = (await post(model, body(prompt))).json()
    assert [block["type"] for block in first["content"]] == ["text", "tool_use"]
    result = {"type": "tool_result", "tool_use_id": first["content"][1]["id"], "content": "a.txt"}
    history: list[dict[str, Any]] = [
        {"role": "assistant", "content": first["content"]},
        {"role": "user", "content": [result]},
    ]
    last = (await post(model, body(prompt, *history))).json()
    assert (last["content"], last["stop_reason"]) == ([], "end_turn")
    assert kinds(await stream(model, body(prompt, *history))) == [
        "message_start",
        "ping",
        "message_delta",
        "message_stop",
    ]


async def test_a_text_streams_in_the_order_of_the_messages_api(model: ScriptedModel) -> None:
    events = await stream(model, body("SCRIPT:text hello"))
    assert kinds(events) == [
        "message_start",
        "ping",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    text = "".join(e["delta"]["text"] for e in events if e["type"] == "content_block_delta")
    assert text == "Hello from the scripted model. hello"
    assert events[-2]["delta"]["stop_reason"] == "end_turn"


async def test_a_tool_call_streams_its_input(model: ScriptedModel) -> None:
    events = await stream(model, body("SCRIPT:write f.txt"))
    start = next(e["content_block"] for e in events if e["type"] == "content_block_start")
    assert (start["name"], start["input"]) == ("Write", {})
    typed = "".join(e["delta"]["partial_json"] for e in events if e["type"] == "content_block_delta")
    assert json.loads(typed)["file_path"] == "f.txt"
    assert events[-2]["delta"]["stop_reason"] == "tool_use"


async def test_thinking_streams_with_its_signature(model: ScriptedModel) -> None:
    events = await stream(model, body("SCRIPT:think"))
    deltas = [e["delta"]["type"] for e in events if e["type"] == "content_block_delta"]
    assert set(deltas) == {"thinking_delta", "signature_delta", "text_delta"}


async def test_the_same_without_streaming(model: ScriptedModel) -> None:
    answer = (await post(model, body("SCRIPT:think"))).json()
    assert [b["type"] for b in answer["content"]] == ["thinking", "text"]
    assert answer["stop_reason"] == "end_turn"
    assert answer["usage"]["output_tokens"] > 1


async def test_a_tool_result_moves_the_script_on(model: ScriptedModel) -> None:
    done = {"type": "tool_result", "tool_use_id": "t", "content": "all good"}
    answer = (await post(model, body("SCRIPT:tool", {"role": "user", "content": [done]}))).json()
    assert answer["content"][0]["text"] == "Done. The tool said: all good"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (429, "rate_limit_error"),
        (529, "overloaded_error"),
    ],
)
async def test_errors_have_the_apis_shape(model: ScriptedModel, status: int, kind: str) -> None:
    response = await post(model, body(f"SCRIPT:error {status}", stream=True))
    assert response.status_code == status
    assert response.json()["error"]["type"] == kind
    assert response.json()["request_id"] == response.headers["request-id"]


async def test_an_error_that_comes_once_is_gone_at_the_second_attempt(model: ScriptedModel) -> None:
    request = body("SCRIPT:error_once")
    assert [(await post(model, request)).status_code for _ in range(3)] == [529, 200, 200]
    assert [r.attempt for r in model.of("error_once")] == [0, 1, 2]


@pytest.mark.parametrize("script", ["cut", "crash"])
async def test_a_cut_stream_ends_after_its_text(model: ScriptedModel, script: str) -> None:
    came = b""
    async with local_client(base_url=model.url) as client:
        request = client.stream("POST", "/v1/messages", json=body(f"SCRIPT:{script}", stream=True))
        async with request as response:
            with contextlib.suppress(httpx2.RemoteProtocolError):
                async for chunk in response.aiter_bytes():
                    came += chunk
                pytest.fail("the stream had an end")
    assert b"content_block_stop" in came
    assert b"message_stop" not in came


async def test_a_client_that_leaves_ends_a_slow_stream(model: ScriptedModel) -> None:
    slow = body("SCRIPT:slow 9999", stream=True)
    idle = asyncio.all_tasks()
    async with (
        local_client(base_url=model.url) as client,
        client.stream("POST", "/v1/messages", json=slow) as response,
    ):
        async for chunk in response.aiter_bytes():
            if b"tick" in chunk:
                break
    async with asyncio.timeout(PATIENCE):
        while asyncio.all_tasks() - idle:  # the response's own task
            await asyncio.sleep(0.01)


async def test_a_model_that_stops_closes_the_connection_of_a_response_in_progress() -> None:
    """An open connection would be reported as a leak, in whichever test runs when it is collected."""
    idle = asyncio.all_tasks()
    async with contextlib.AsyncExitStack() as stack:
        async with ScriptedModel() as model:
            client = await stack.enter_async_context(local_client(base_url=model.url))
            slow = client.stream("POST", "/v1/messages", json=body("SCRIPT:slow 9999", stream=True))
            chunks = (await stack.enter_async_context(slow)).aiter_bytes()
            await anext(chunks)
        assert asyncio.all_tasks() == idle
        with pytest.raises(httpx2.RemoteProtocolError):
            await asyncio.wait_for(read_all(chunks), PATIENCE)


async def test_requests_to_the_model_are_logged_in_memory_and_in_the_file(model: ScriptedModel, tmp_path: Path) -> None:
    system = [{"type": "text", "text": "You are"}, {"type": "text", "text": "kind."}]
    await post(model, body("SCRIPT:text x", system=system, thinking={"type": "enabled"}))
    (request,) = model.requests
    assert (request.kind, request.script, request.argument, request.step) == ("messages", "text", "x", 0)
    assert (request.model, request.messages, request.stream) == ("m", 1, False)
    assert request.system == "You are\nkind."
    assert request.thinking == {"type": "enabled"}
    assert request.tools == ("Agent", "Bash", "Write")
    assert request.conversation == request.since_last_answer == ({"role": "user", "content": "SCRIPT:text x"},)
    assert _logged(tmp_path)[0]["script"] == "text"


def test_the_new_input_is_everything_after_the_last_answer_including_notes_of_the_agent() -> None:
    before = ({"role": "user", "content": "one"}, {"role": "assistant", "content": "two"})
    after = ({"role": "user", "content": "three"}, {"role": "system", "content": "1000 tokens are left"})
    assert ModelRequest("messages", "POST", "/", conversation=(*before, *after)).since_last_answer == after
    assert ModelRequest("messages", "POST", "/", conversation=after).since_last_answer == after


def _logged(tmp_path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]


async def test_side_requests_are_answered_and_distinguished(model: ScriptedModel) -> None:
    plain = {**body("SCRIPT:loop"), "tools": []}
    title = await post(model, {**plain, "system": "Write a title for this session"})
    assert json.loads(title.json()["content"][0]["text"])["title"]
    assert (await post(model, {**plain, "max_tokens": 1})).json()["content"][0]["text"] == "ok"
    async with local_client(base_url=model.url) as client:
        counted = await client.post("/v1/messages/count_tokens", json=plain)
        assert counted.json()["input_tokens"] > 0
        assert (await client.head("/")).status_code == 404
        assert (await client.get("/api/hello")).json()["error"]["type"] == "not_found_error"
    assert [r.kind for r in model.requests] == ["title", "probe", "count_tokens", "other", "other"]


@pytest.mark.parametrize("bad", [b"", b"{", b"[]", b'{"messages": 7}', b'{"messages": [1]}'])
async def test_a_bad_body_is_a_bad_request(model: ScriptedModel, bad: bytes) -> None:
    async with local_client(base_url=model.url) as client:
        response = await client.post("/v1/messages", content=bad)
    assert response.status_code == 400
    assert response.json()["error"]["type"] == "invalid_request_error"


async def test_waiting_for_a_request(model: ScriptedModel) -> None:
    waiting = asyncio.create_task(model.wait_for(lambda r: r.script == "echo"))
    await post(model, body("SCRIPT:text"))
    assert not waiting.done()
    await post(model, body("SCRIPT:echo"))
    assert (await waiting).script == "echo"
    assert (await model.wait_for(lambda r: r.script == "text")).script == "text"
    with pytest.raises(TimeoutError):
        await model.wait_for(lambda r: r.script == "never", timeout=0.01)


async def test_two_servers_are_independent() -> None:
    async with ScriptedModel() as one, ScriptedModel() as two:
        assert one.url != two.url
        await post(one, body("SCRIPT:text"))
        assert (len(one.requests), len(two.requests)) == (1, 0)


async def test_a_port_in_use_is_an_error_at_the_start(model: ScriptedModel) -> None:
    port = int(model.url.rsplit(":", 1)[1])
    with pytest.raises(OSError, match="in use"):
        async with ScriptedModel(port=port):
            raise AssertionError("two servers on one port")


@pytest.mark.process
async def test_the_command_line_serves_until_it_is_stopped(tmp_path: Path) -> None:
    log = tmp_path / "requests.jsonl"
    command = [sys.executable, "-m", "fairlead_testing.model_api", "--port", "0", "--log", str(log)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            line = (await process.stdout.readline()).decode()
        async with local_client() as client:
            answer = await client.post(f"{line.split()[-1]}/v1/messages", json=body("SCRIPT:text"))
        assert answer.status_code == 200
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(PATIENCE):
            assert await process.wait() == 0
        assert '"script": "text"' in _text(log)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def _text(path: Path) -> str:
    return path.read_text()
