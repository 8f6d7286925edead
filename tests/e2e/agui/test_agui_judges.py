"""The real client of AG-UI on a gateway with the demo agent: each scene passes its verifier, and the SDK's models."""

import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from clients.agui.harness import AgUiGateway, open_gateway
from e2e.agui.judges import Pages, Run, model_problems, open_pages, why_not_here

ALLOW = {"status": "resolved", "payload": {"approved": True}}
DENY = {"status": "resolved", "payload": {"approved": False, "message": "not today"}}


@pytest.fixture(autouse=True)
def judges_are_here() -> None:
    if reason := why_not_here():
        pytest.skip(reason)


def ended(run: Run, outcome: str) -> None:
    assert run.failures == []
    assert run.end["type"] == "RUN_FINISHED"
    assert run.outcome == outcome


async def text(pages: Pages, gateway: AgUiGateway) -> None:
    run = await pages.run("text", str(uuid.uuid4()), "SCRIPT:text hello")
    ended(run, "success")
    assert run.text() == "Hello from the scripted model. hello"
    assert run.count("TEXT_MESSAGE_CONTENT") > 1, "the text is streamed"
    assert run.end["result"]["text"] == run.text()
    assert run.end["usage"][0]["inputTokens"] > 0
    assert run.state["fairlead"]["agent"] == "demo"
    again = await pages.run("text", "", "SCRIPT:echo")
    ended(again, "success")
    assert [message["role"] for message in again.messages] == ["user", "assistant"] * 2
    assert again.count("MESSAGES_SNAPSHOT") == 0, "the client's history is ours"


async def thinking(pages: Pages, gateway: AgUiGateway) -> None:
    run = await pages.run("think", "any name of a thread", "SCRIPT:think")
    ended(run, "success")
    assert run.text("reasoning") == "Let me think about this carefully."
    assert run.text() == "I thought about it."


async def allowed(pages: Pages, gateway: AgUiGateway) -> None:
    asked = await pages.run("allow", str(uuid.uuid4()), "SCRIPT:bash touch allowed.txt")
    ended(asked, "interrupt")
    (interrupt,) = asked.pending
    assert interrupt["reason"] == "tool_call"
    assert interrupt["toolCallId"] == asked.messages[-1]["toolCalls"][0]["id"]
    done = await pages.run("allow", "", answer=ALLOW)
    ended(done, "success")
    assert (gateway.root / "allowed.txt").exists()
    assert done.count("TOOL_CALL_START") == 0, "the call is not sent again"
    assert done.count("TOOL_CALL_RESULT") == 1
    assert done.count("MESSAGES_SNAPSHOT") == 0


async def denied(pages: Pages, gateway: AgUiGateway) -> None:
    ended(await pages.run("deny", str(uuid.uuid4()), "SCRIPT:bash touch denied.txt"), "interrupt")
    done = await pages.run("deny", "", answer=DENY)
    ended(done, "success")
    assert "not today" in done.text()
    ended(await pages.run("deny", "", "SCRIPT:bash touch denied.txt"), "interrupt")
    ended(await pages.run("deny", "", answer={"status": "cancelled"}), "success")
    assert not (gateway.root / "denied.txt").exists()


async def question_and_plan(pages: Pages, gateway: AgUiGateway) -> None:
    asked = await pages.run("ask", str(uuid.uuid4()), "SCRIPT:question")
    ended(asked, "interrupt")
    assert asked.pending[0]["reason"] == "input_required"
    answer = {"status": "resolved", "payload": {"answers": {"Which colour?": "Blue"}}}
    done = await pages.run("ask", "", answer=answer)
    ended(done, "success")
    assert "Blue" in done.text()
    asked = await pages.run("ask", "", "SCRIPT:plan")
    assert asked.pending[0]["reason"] == "confirmation"
    ended(await pages.run("ask", "", answer=ALLOW), "success")


async def subagent(pages: Pages, gateway: AgUiGateway) -> None:
    asked = await pages.run("subagent", str(uuid.uuid4()), "SCRIPT:subagent write sub.txt")
    ended(asked, "interrupt")
    (suspended,) = [event for event in asked.events if event["type"] == "SUBAGENT_FINISHED"]
    assert suspended["outcome"] == {"type": "suspended", "interruptIds": [asked.pending[0]["id"]]}
    done = await pages.run("subagent", "", answer=ALLOW)
    ended(done, "success")
    assert done.count("SUBAGENT_STARTED") == 1, "it is started again"
    assert [e["outcome"]["type"] for e in done.events if e["type"] == "SUBAGENT_FINISHED"] == ["success"]
    assert (gateway.root / "sub.txt").exists()
    children = {m["subagentRunId"] for m in done.messages if "subagentRunId" in m}
    assert children == {suspended["subagentRunId"]}


async def two_calls(pages: Pages, gateway: AgUiGateway) -> None:
    run = await pages.run("two", str(uuid.uuid4()), "SCRIPT:parallel")
    assert run.count("TOOL_CALL_START") == 2
    while run.pending:
        ended(run, "interrupt")
        run = await pages.run("two", "", answer=ALLOW)
    ended(run, "success")
    assert (gateway.root / "p1").exists() and (gateway.root / "p2").exists()
    (calls,) = [message["toolCalls"] for message in run.messages if message.get("toolCalls")]
    assert len(calls) == 2


async def error(pages: Pages, gateway: AgUiGateway) -> None:
    run = await pages.run("error", str(uuid.uuid4()), "SCRIPT:error 400")
    assert run.end["type"] == "RUN_ERROR"
    assert "scripted bad request" in run.end["message"]
    crashed = await pages.run("error", "", "SCRIPT:crash")
    assert crashed.end["type"] == "RUN_ERROR"
    ended(await pages.run("error", "", "SCRIPT:text"), "success")


async def attach(pages: Pages, gateway: AgUiGateway) -> None:
    """A page goes away in the middle of a turn, another one comes; the turn goes on, and both see all of it."""
    thread = str(uuid.uuid4())
    gone = await pages.run("first", thread, "SCRIPT:slow 4", abortAt="TEXT_MESSAGE_START")
    assert gone.count("RUN_FINISHED") == 0
    other = await pages.run("second", thread)
    ended(other, "success")
    assert other.text() == "tick " * 4
    assert other.text("user") == "SCRIPT:slow 4"
    back = await pages.run("first", "")
    ended(back, "success")
    assert back.text() == "tick " * 4
    assert [m["role"] for m in back.messages] == [m["role"] for m in other.messages] == ["user", "assistant"]


async def another_client(pages: Pages, gateway: AgUiGateway) -> None:
    """Another client writes in the session: the page gets its messages with the next run."""
    thread = str(uuid.uuid4())
    ended(await pages.run("mine", thread, "SCRIPT:text one"), "success")
    sent = await gateway.http.post(f"/v1/sessions/{thread}/messages", json={"text": "SCRIPT:text from elsewhere"})
    assert sent.status_code == 200, sent.text
    await gateway.turns_over(thread, 2)
    run = await pages.run("mine", "", "SCRIPT:text two")
    ended(run, "success")
    texts = [message["content"] for message in run.messages]
    assert texts[2:4] == ["SCRIPT:text from elsewhere", "Hello from the scripted model. from elsewhere"]
    assert texts[4:] == ["SCRIPT:text two", "Hello from the scripted model. two"]


async def answered_elsewhere(pages: Pages, gateway: AgUiGateway) -> None:
    """Another client answers the request of an interrupt: the page's own answer comes too late, and is no error."""
    thread = str(uuid.uuid4())
    asked = await pages.run("late", thread, "SCRIPT:bash touch elsewhere.txt")
    ended(asked, "interrupt")
    sent = await gateway.http.post(f"/v1/permissions/{asked.pending[0]['id']}", json={"behavior": "allow"})
    assert sent.status_code == 200, sent.text
    done = await pages.run("late", "", answer=DENY)
    ended(done, "success")
    assert (gateway.root / "elsewhere.txt").exists()


SCENES: tuple[Callable[[Pages, AgUiGateway], Awaitable[None]], ...] = (
    *(text, thinking, allowed, denied, question_and_plan, subagent, two_calls),
    *(error, attach, another_client, answered_elsewhere),
)


async def test_every_scene_passes_the_verifier_of_the_real_client_and_the_models(tmp_path: Path) -> None:
    async with open_gateway(tmp_path) as gateway, open_pages(gateway.gateway, tmp_path) as pages:
        for scene in SCENES:
            await scene(pages, gateway)
        assert pages.warnings == []
        assert len(pages.events) > 200
        assert model_problems(pages.events, tmp_path) == ""
        assert "a line" in model_problems([{"type": "TEXT_MESSAGE_START", "a line": None}], tmp_path), "it does judge"
