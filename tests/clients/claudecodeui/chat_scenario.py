"""One script for every agent: what a client of claudecodeui does and sees, independent of the agent."""

from pathlib import Path
from typing import Any

import httpx2

from clients.claudecodeui.chat_harness import Peer, peer_at
from fairlead_testing.claudecodeui_client import ClaudeCodeUiClient

PROJECTS = "/claudecodeui/api/providers/sessions"
SHAPE = ("actualSessionId", "exitCode", "success", "aborted")
COMPLETE = ("id", "sessionId", "timestamp", "provider", "kind", *SHAPE, "seq")


async def create(http: httpx2.AsyncClient, folder: Path, words: str = "hello there") -> str:
    body = {"provider": "claude", "projectPath": str(folder), "initialMessage": words}
    answer = await http.post(PROJECTS, json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["data"]["sessionId"])


async def history(http: httpx2.AsyncClient, session: str, query: str = "") -> Any:
    answer = await http.get(f"{PROJECTS}/{session}/messages{query}")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def allow(peer: Peer, **fields: Any) -> Any:
    asked = await peer.until("permission_request")
    await peer.say("chat.permission-response", requestId=asked["requestId"], allow=True, **fields)
    return asked


def kinds(peer: Peer, session: str) -> list[str]:
    """The kinds of a session's frames, with consecutive deltas counted as one."""
    found: list[str] = []
    for kind in peer.run_kinds(session):
        if kind != "stream_delta" or found[-1:] != [kind]:
            found.append(kind)
    return found


async def play(url: str, token: str, http: httpx2.AsyncClient, folder: Path) -> list[str]:
    """Play text, tool, abort and reconnect, and check the behaviour that all agents share. Returns the kinds of frames
    of each run except the aborted one."""
    client = ClaudeCodeUiClient()
    async with peer_at(url, token) as there:
        async with peer_at(url, token, client) as peer:
            name = await create(http, folder)
            await peer.send(name, "SCRIPT:slow 20", {"model": "default", "permissionMode": "default"})
            await peer.until("stream_delta")
            ack = await there.subscribe(name)
            assert ack["isProcessing"] is True
        # The client was away for the rest of the run.
        await there.until("complete")
        async with peer_at(url, token, client) as peer:
            await peer.subscribe(name, client.sessions[name].seq)
            end = await peer.until("complete")
            assert tuple(end) == COMPLETE
            assert {field: end[field] for field in SHAPE} == {
                "actualSessionId": name,
                "exitCode": 0,
                "success": True,
                "aborted": False,
            }
            assert client.sessions[name].rows == there.client.sessions[name].rows
            made = folder / "made"
            await peer.send(name, f"SCRIPT:bash touch {made}")
            asked = await allow(peer)
            assert asked["toolName"] == "Bash"
            assert (await there.until("permission_cancelled"))["requestId"] == asked["requestId"]
            await peer.until("complete")
            assert made.exists()
            stored = (await history(http, name))["messages"]
            live = {row["id"]: row for row in there.run(name)}
            for row in stored:
                if row.get("role") != "user":
                    # A live call has a later timestamp than the one in history.
                    # A streamed text has its id and its content on the frame that ends the stream.
                    left = ("kind", "seq", "toolResult", "timestamp" if row["kind"] == "tool_use" else "")
                    sent, stored_row = (
                        {field: value for field, value in one.items() if field not in left}
                        for one in (live[row["id"]], row)
                    )
                    assert sent == stored_row
            (call,) = [row for row in stored if row["kind"] == "tool_use"]
            assert call["toolResult"]["isError"] is False
            assert [row["content"] for row in stored if row.get("role") == "user"] == [
                "SCRIPT:slow 20",
                f"SCRIPT:bash touch {made}",
            ]
            await peer.send(name, "SCRIPT:slow 400")
            await peer.until("stream_delta")
            await peer.say("chat.abort", sessionId=name)
            end = await peer.until("complete")
            assert tuple(end) == COMPLETE
            assert (end["exitCode"], end["success"], end["aborted"]) == (0, False, True)
            await there.until(lambda frame: frame["kind"] == "complete" and frame["aborted"])
            await peer.send(name, "SCRIPT:text still here")
            await peer.until("complete")
            assert there.client.sessions[name].rows[-1]["content"].endswith("still here")
            runs = " ".join(kinds(there, name)).split("complete")
            assert runs[2].strip() == "stream_delta stream_end"
            numbers = [frame["seq"] for frame in there.run(name)]
            assert numbers == sorted(set(numbers))
            return [*runs[:2], *runs[3:]]


PLAYED = [
    "stream_delta stream_end ",
    " tool_use permission_request permission_cancelled tool_result stream_delta stream_end ",
    " stream_delta stream_end ",
    "",
]
"""The expected result of `play`."""
