"""Runs with the packages of the official MCP client: connects to a gateway, uses every tool, prints the outcome.

Arguments: `http` or `stdio`, the client's mode, the gateway's address, a token and, for stdio, the program `fairlead`.
"""

import asyncio
import json
import os
import sys
from typing import Any

import httpx2
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client


async def play(client: Any) -> dict[str, Any]:
    async def call(name: str, **arguments: Any) -> Any:
        result = await client.call_tool(name, arguments)
        return {"text": result.content[0].text, "error": result.is_error}

    async def wait(session: str) -> Any:
        while "still works" in (answer := await call("wait_for_turn", session=session))["text"]:
            pass
        return answer

    found: dict[str, Any] = {"version": client.protocol_version, "server": client.server_info.name}
    found["tools"] = [tool.name for tool in (await client.list_tools()).tools]
    found["started"] = await call("start_session", message="SCRIPT:text from the judge")
    session = found["session"] = found["started"]["text"].split()[2].rstrip(".")
    found["waited"] = await wait(session)
    found["sent"] = await call("send_message", session=session, message="SCRIPT:echo")
    found["waited again"] = await wait(session)
    found["listed"] = await call("list_sessions", limit=1)
    found["read"] = await call("read_session", session=session)
    found["bad arguments"] = await call("list_sessions", nothing=1)
    found["no session"] = await call("read_session", session="00000000-0000-4000-8000-000000000000")
    try:
        await client.call_tool("answer_permission", {})
    except MCPError as error:
        found["no tool"] = error.error.code
    return found


async def main() -> None:
    transport, mode, url, token = sys.argv[1:5]
    server: Any
    if transport == "http":
        http = httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=120)
        server = streamable_http_client(f"{url}/mcp?allow=send", http_client=http)
    else:
        # The token in a variable, not as an argument, which every user of the machine could read.
        env = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "FAIRLEAD_URL": url, "FAIRLEAD_TOKEN": token}
        server = StdioServerParameters(command=sys.argv[5], args=["mcp", "--allow", "send"], env=env)
    async with Client(server, mode=mode) as client:
        print(json.dumps(await play(client)))


asyncio.run(main())
