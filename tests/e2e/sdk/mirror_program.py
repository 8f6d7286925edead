"""A conversation of the SDK whose transcript is kept in our store, and goes on from there when its files are gone.

python mirror_program.py PATHS URL TOKEN CLAUDE FOLDER
"""

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ResultMessage,
    list_sessions_from_store,
    project_key_for_directory,
    query,
)

# Behind the SDK's own packages: fairlead, and what it needs.
sys.path += sys.argv[1].split(":")
from fairlead.sdk import FairleadSessionStore


async def main(url: str, token: str, claude: str, folder: str) -> None:
    async with FairleadSessionStore(url, token) as store:

        async def turn(prompt: str, **more: Any) -> str:
            """Run one turn in a process of its own; return the session."""
            given: Any = store
            options = ClaudeAgentOptions(cli_path=claude, cwd=folder, session_store=given, **more)
            async for message in query(prompt=prompt, options=options):
                if isinstance(message, ResultMessage):
                    say(result=message.subtype, text=message.result, session=message.session_id)
                    session = str(message.session_id)
            return session

        session = await turn("SCRIPT:echo")
        listed: Any = await list_sessions_from_store(store, folder)
        say(listed=[one.session_id for one in listed])
        # Another machine has none of the files.
        shutil.rmtree(Path(os.environ["HOME"]) / ".claude" / "projects")
        await turn("SCRIPT:echo", resume=session)
        key = {"project_key": project_key_for_directory(folder), "session_id": session}
        stored: Any = await store.load(key)
        say(prompts=[entry["type"] for entry in stored].count("user"))


def say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


asyncio.run(main(*sys.argv[2:]))
