"""A program on the Agent SDK whose sessions are in a gateway.

It runs in the SDK's own environment; each step prints one line of JSON.

python transport_program.py PATHS URL TOKEN FOLDER
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
    PermissionResultDeny,
    ResultMessage,
    query,
)

# Behind the SDK's own packages: fairlead, and what it needs.
sys.path += sys.argv[1].split(":")
from fairlead.client import ClientError, Missing
from fairlead.sdk import FairleadTransport


def say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


async def main(url: str, token: str, folder: str) -> None:
    asked: list[str] = []

    async def may(name: str, given: dict[str, Any], context: Any) -> PermissionResultAllow | PermissionResultDeny:
        asked.append(given["command"])
        return PermissionResultDeny(message="no") if "denied" in given["command"] else PermissionResultAllow()

    transport = FairleadTransport(url, token, cwd=folder)
    async with ClaudeSDKClient(ClaudeAgentOptions(can_use_tool=may), transport=transport) as client:
        for prompt in ("SCRIPT:text hello", "SCRIPT:bash touch made", "SCRIPT:bash touch denied"):
            await client.query(prompt)
            say(prompt=prompt, **await receive(client.receive_response()))
        await client.query("SCRIPT:slow 400")
        messages = client.receive_response()
        while "tick" not in str(await anext(messages)):
            pass
        await client.interrupt()
        say(prompt="interrupted", **await receive(messages))
    say(asked=asked, ready=transport.is_ready())

    # The simple form closes the input at once; it continues the same session from a new connection.
    again = FairleadTransport(url, token, session=transport.session)
    say(session=transport.session, **await receive(query(prompt="SCRIPT:echo", transport=again)))

    async def prompts() -> Any:
        for text in ("SCRIPT:text one", "SCRIPT:text two"):
            yield {"type": "user", "message": {"role": "user", "content": text}, "parent_tool_use_id": None}

    await receive(query(prompt=prompts(), transport=FairleadTransport(url, token, cwd=folder)))
    say(both=True)

    for wrong, place in (
        (FairleadTransport(url, "fl_wrong", cwd=folder), ClientError),
        (FairleadTransport(url, token, session="0a000000-0000-4000-8000-00000000dead"), Missing),
    ):
        try:
            await wrong.connect()
        except place as error:
            say(refused=error.message)


async def receive(messages: Any) -> dict[str, str]:
    text, subtype = "", ""
    async for message in messages:
        if isinstance(message, AssistantMessage):
            text += "".join(getattr(block, "text", "") for block in message.content)
        if isinstance(message, ResultMessage):
            subtype = message.subtype
    return {"text": text, "result": subtype}


asyncio.run(main(*sys.argv[2:]))
