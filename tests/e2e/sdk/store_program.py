"""The SDK's own conformance suite on our session store. It runs in the SDK's own environment.

python store_program.py PATHS URL TOKEN
"""

import asyncio
import json
import sys
from typing import Any

from claude_agent_sdk.testing import run_session_store_conformance

# Behind the SDK's own packages: fairlead, and what it needs.
sys.path += sys.argv[1].split(":")
from fairlead.client import connect
from fairlead.sdk import FairleadSessionStore

ID = "0a000000-0000-4000-8000-00000000000a"


async def main(url: str, token: str) -> None:
    stores: list[FairleadSessionStore] = []

    async with connect(url, token) as gateway:

        async def fresh() -> Any:
            """A store without transcripts: that of a new user."""
            name = f"user{len(stores)}"
            await gateway.post("/v1/users", dict[str, Any], {"name": name})
            body = {"name": name, "user": name, "scopes": ["view", "chat"]}
            made = await gateway.post("/v1/tokens", dict[str, Any], body)
            stores.append(FairleadSessionStore(url, made["secret"]))
            return stores[-1]

        await run_session_store_conformance(fresh)
        say(conforms=len(stores))

        store = await fresh()
        key = {"project_key": "-a/b %2F", "session_id": ID}
        lines = [
            {
                "type": "user",
                "uuid": f"0a000000-0000-4000-8000-{number:012}",
                "parentUuid": f"0a000000-0000-4000-8000-{number - 1:012}" if number else None,
                "sessionId": ID,
                "timestamp": "2026-01-01T00:00:00.000Z",
                "message": {"role": "user", "content": f"prompt {number} " + "x" * 3000},
            }
            for number in range(2500)
        ]
        await store.append(key, lines)
        await store.append(key, lines[-3:])
        say(same=await store.load(key) == lines)

        # Two programs write to one session at once: both are in it.
        await asyncio.gather(*(store.append(key, [{"type": "tag", "n": n}]) for n in range(5)))
        say(entries=len(await store.load(key) or []))
        for one in stores:
            await one.aclose()


def say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


asyncio.run(main(*sys.argv[2:]))
