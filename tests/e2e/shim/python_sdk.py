"""A program on the official Python SDK. It runs in the SDK's own environment; each step prints one line of JSON.

python python_sdk.py CLI FOLDER
"""

import asyncio
import json
import sys
from typing import Any

from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    HookMatcher,
    PermissionResultAllow,
    ResultMessage,
    SystemMessage,
    create_sdk_mcp_server,
    query,
    tool,
)


def say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


async def main(cli: str, folder: str) -> None:
    hooked: list[str] = []
    asked: list[str] = []

    @tool("add", "Adds two numbers", {"a": int, "b": int})
    async def add(given: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": f"sum {given['a'] + given['b']}"}]}

    async def before(given: Any, call: Any, context: Any) -> dict[str, Any]:
        hooked.append(given["tool_name"])
        return {}

    async def may(name: str, given: dict[str, Any], context: Any) -> PermissionResultAllow:
        asked.append(name)
        say(asked=name)
        if "wait" in str(given):
            await asyncio.Event().wait()
        return PermissionResultAllow()

    options = ClaudeAgentOptions(
        cli_path=cli,
        cwd=folder,
        can_use_tool=may,
        include_partial_messages=True,
        hooks={"PreToolUse": [HookMatcher(hooks=[before])]},
        mcp_servers={"mine": create_sdk_mcp_server("mine", tools=[add])},
        allowed_tools=["mcp__mine__add"],
        setting_sources=[],
    )
    async with ClaudeSDKClient(options) as client:
        for prompt in ("SCRIPT:text hello", "SCRIPT:bash touch made", "SCRIPT:mcp mcp__mine__add"):
            await client.query(prompt)
            await receive(client)
        say(hooked=hooked, asked=asked)
        # Somebody else answers this one; our callback is cancelled.
        await client.query("SCRIPT:bash touch wait")
        await receive(client)
        # And somebody else says something.
        say(ready=True)
        await receive(client)
        await client.query("SCRIPT:slow 400")
        receiving = asyncio.create_task(receive(client, cut=True))
        await receiving
    # The simple form: one prompt, and the input is closed at once.
    async for message in query(prompt="SCRIPT:text simple", options=ClaudeAgentOptions(cli_path=cli, cwd=folder)):
        if isinstance(message, ResultMessage):
            say(simple=message.result)


async def receive(client: ClaudeSDKClient, *, cut: bool = False) -> None:
    text = ""
    async for message in client.receive_response():
        if cut and type(message).__name__ == "StreamEvent" and "tick" in str(message):
            cut = False
            await client.interrupt()
        if isinstance(message, SystemMessage) and message.subtype == "init":
            say(session=message.data["session_id"])
        if isinstance(message, AssistantMessage):
            text += "".join(getattr(block, "text", "") for block in message.content)
        if isinstance(message, ResultMessage):
            say(result=message.subtype, text=text)


asyncio.run(main(*sys.argv[1:]))
