"""The scripted model of ACP agents: every dialect reads its requests and streams the same scripts."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from fairlead_testing.acp_models import AcpModel
from fairlead_testing.acp_scripts import GREETING, TITLE

Json = dict[str, Any]

GEMINI = "/v1beta/models/any:streamGenerateContent"
CHAT = "/v1/chat/completions"
RESPONSES = "/v1/responses"
DIALECTS = [GEMINI, CHAT, RESPONSES]
SHELL = {GEMINI: "run_shell_command", CHAT: "bash", RESPONSES: "exec_command"}
AGENT = {GEMINI: "gemini", CHAT: "opencode", RESPONSES: "codex"}

each_dialect = pytest.mark.parametrize("path", DIALECTS)


@pytest.fixture
async def model() -> AsyncIterator[AcpModel]:
    async with AcpModel() as serving:
        yield serving


def request_of(path: str, prompt: str, *results: str, tools: tuple[str, ...] | None = None) -> Json:
    """A request as the dialect's agent sends it: the prompt, then the results of the tools that the model called."""
    names = (SHELL[path],) if tools is None else tools
    if path == GEMINI:
        answers = [{"functionResponse": {"name": "x", "response": {"output": text}}} for text in results]
        contents: list[Json] = [{"role": "user", "parts": [{"text": prompt}]}]
        contents += [{"role": "user", "parts": [answer]} for answer in answers]
        return {"contents": contents, "tools": [{"functionDeclarations": [{"name": name} for name in names]}]}
    if path == CHAT:
        messages: list[Json] = [{"role": "user", "content": [{"type": "text", "text": prompt}]}]
        messages += [{"role": "tool", "content": text} for text in results]
        functions = [{"type": "function", "function": {"name": name}} for name in names]
        return {"model": "any", "stream": True, "messages": messages, "tools": functions}
    items: list[Json] = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": prompt}]}]
    items += [{"type": "function_call_output", "output": text} for text in results]
    functions = [{"type": "function", "name": name} for name in names]
    return {"model": "any", "stream": True, "input": items, "tools": functions}


async def ask(model: AcpModel, path: str, body: Json) -> list[Json]:
    """The events of the streamed answer."""
    async with httpx2.AsyncClient(base_url=model.url) as client:
        response = await client.post(path, json=body)
    assert response.status_code == 200
    lines = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def text_of(path: str, events: list[Json], *, thought: bool = False) -> str:
    """The text, or the thought, that an answer has."""
    if path == GEMINI:
        parts = [part for event in events for part in event["candidates"][0]["content"]["parts"]]
        return "".join(part.get("text", "") for part in parts if part.get("thought", False) == thought)
    if path == CHAT:
        field = "reasoning_content" if thought else "content"
        return "".join(choice["delta"].get(field, "") for event in events for choice in event["choices"])
    kind = "response.reasoning_summary_text.delta" if thought else "response.output_text.delta"
    return "".join(event["delta"] for event in events if event["type"] == kind)


def calls_of(path: str, events: list[Json]) -> list[tuple[str, Any]]:
    """The tools that an answer calls, with their inputs."""
    if path == GEMINI:
        parts = [part for event in events for part in event["candidates"][0]["content"]["parts"]]
        return [(p["functionCall"]["name"], p["functionCall"]["args"]) for p in parts if "functionCall" in p]
    if path == CHAT:
        deltas = [choice["delta"] for event in events for choice in event["choices"]]
        called = [call["function"] for delta in deltas for call in delta.get("tool_calls", [])]
        return [(call["name"], json.loads(call["arguments"])) for call in called]
    items = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    return [
        (item["name"], json.loads(item["arguments"]) if "arguments" in item else item["input"])
        for item in items
        if item["type"] in ("function_call", "custom_tool_call")
    ]


@each_dialect
async def test_a_text_comes_in_pieces_that_join_to_it(model: AcpModel, path: str) -> None:
    events = await ask(model, path, request_of(path, "SCRIPT:text good morning"))
    assert text_of(path, events) == f"{GREETING} good morning"
    assert len(events) > 3


@each_dialect
async def test_a_slow_text_is_as_many_ticks_as_the_prompt_says(model: AcpModel, path: str) -> None:
    assert text_of(path, await ask(model, path, request_of(path, "SCRIPT:slow 3"))) == "tick tick tick "


@each_dialect
async def test_a_thought_precedes_the_text_and_is_no_part_of_it(model: AcpModel, path: str) -> None:
    events = await ask(model, path, request_of(path, "SCRIPT:think"))
    assert text_of(path, events) == "I thought about it."
    assert text_of(path, events, thought=True).endswith("think about this carefully.")


@each_dialect
async def test_a_tool_is_called_in_the_agents_words_and_its_result_ends_the_turn(model: AcpModel, path: str) -> None:
    ((name, arguments),) = calls_of(path, await ask(model, path, request_of(path, "SCRIPT:shell echo hi")))
    assert name == SHELL[path]
    assert "echo hi" in arguments.values()
    assert text_of(path, await ask(model, path, request_of(path, "SCRIPT:shell echo hi", "hi"))) == "Done."
    first, second = model.of("shell")
    assert (first.agent, first.argument, first.step) == (AGENT[path], "echo hi", 0)
    assert (second.step, len(second.results)) == (1, 1)
    assert "hi" in second.results[0]


async def test_a_tool_that_takes_a_text_gets_it_as_it_is(model: AcpModel) -> None:
    body = request_of(RESPONSES, "SCRIPT:write notes.txt", tools=("exec_command", "apply_patch"))
    ((name, patch),) = calls_of(RESPONSES, await ask(model, RESPONSES, body))
    assert name == "apply_patch"
    assert patch.splitlines()[1:4] == ["*** Add File: notes.txt", "+hello", "+world"]


@each_dialect
async def test_an_agent_without_the_tool_gets_a_sentence_that_says_so(model: AcpModel, path: str) -> None:
    assert "no tool for 'plan'" in text_of(path, await ask(model, path, request_of(path, "SCRIPT:plan")))


@each_dialect
async def test_a_request_without_tools_asks_for_a_title(model: AcpModel, path: str) -> None:
    assert text_of(path, await ask(model, path, request_of(path, "SCRIPT:fail", tools=()))) == TITLE
    assert model.of("fail") == [], "such requests are none of the script's"


@each_dialect
async def test_a_failure_is_an_error_of_http_with_its_reason(model: AcpModel, path: str) -> None:
    async with httpx2.AsyncClient(base_url=model.url) as client:
        response = await client.post(path, json=request_of(path, "SCRIPT:fail 429"))
    assert response.status_code == 429
    assert "refuses this" in response.json()["error"]["message"]


async def test_an_answer_that_must_be_json_is_json(model: AcpModel) -> None:
    body = request_of(GEMINI, "SCRIPT:text x") | {"generationConfig": {"responseMimeType": "application/json"}}
    async with httpx2.AsyncClient(base_url=model.url) as client:
        response = await client.post("/v1beta/models/any:generateContent", json=body)
    (part,) = response.json()["candidates"][0]["content"]["parts"]
    assert json.loads(part["text"])["next_speaker"] == "user"


async def test_what_no_dialect_has_is_refused_and_noted(model: AcpModel) -> None:
    async with httpx2.AsyncClient(base_url=model.url) as client:
        assert (await client.get("/v1/models")).status_code == 404
    assert [(request.dialect, request.path) for request in model.requests] == [("other", "/v1/models")]
    assert (await model.wait_for(lambda request: request.dialect == "other")).path == "/v1/models"
