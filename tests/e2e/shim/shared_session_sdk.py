"""A program on the official Python SDK that a test steers: each line of stdin is a prompt, or `allow` for its request.

    python shared_session_sdk.py CLI FOLDER

It runs in the SDK's own environment and prints one line of JSON for each text, result and request.
"""

import asyncio
import json
import sys
from typing import Any

from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    PermissionResultAllow,
    ResultMessage,
    SystemMessage,
)


def say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


async def main(cli: str, folder: str) -> None:
    answers: asyncio.Queue[None] = asyncio.Queue()

    async def may(name: str, given: dict[str, Any], context: Any) -> PermissionResultAllow:
        say(asked=given)
        try:
            await answers.get()
        except asyncio.CancelledError:
            say(withdrawn=given)
            raise
        return PermissionResultAllow()

    options = ClaudeAgentOptions(cli_path=cli, cwd=folder, can_use_tool=may, setting_sources=[])
    async with ClaudeSDKClient(options) as client:
        showing = asyncio.create_task(show(client))
        while line := (await asyncio.to_thread(sys.stdin.readline)).strip():
            if line == "allow":
                answers.put_nowait(None)
            else:
                await client.query(line)
        showing.cancel()


async def show(client: ClaudeSDKClient) -> None:
    async for message in client.receive_messages():
        if isinstance(message, SystemMessage) and message.subtype == "init":
            say(session=message.data["session_id"])
        if isinstance(message, AssistantMessage):
            say(text="".join(getattr(block, "text", "") for block in message.content))
        if isinstance(message, ResultMessage):
            say(result=message.subtype)


asyncio.run(main(*sys.argv[1:]))
