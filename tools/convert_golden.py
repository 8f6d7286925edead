"""Convert the session goldens of the client protocols to the form of tests/golden/cases.py, and compare every output
with the old file, byte for byte. Runs once, on the commit before the conversion."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

from clients.cognova import chat_offline  # noqa: E402
from clients.happy.envelopes import MappedSession  # noqa: E402
from clients.mylifedb import view_offline  # noqa: E402
from fairlead_testing.replay import EventLog  # noqa: E402
from golden.cases import GOLDEN, encode_log, read_log  # noqa: E402
from golden.runner import outputs  # noqa: E402

RENAMED = {("claudecodeui", "own-run"): "own-turn", ("claudecodeui", "two-runs"): "two-turns"}
OLD = {
    "cognova": {"live.jsonl": "live.jsonl", "history.json": "messages.json"},
    "claudecodeui": {"live.jsonl": "live.jsonl", "history.json": "history.json"},
    "mylifedb": {"live.jsonl": "live.jsonl", "catchup.jsonl": "history.jsonl"},
    "happy": {"live.jsonl": "out.jsonl"},
}
TITLES = {
    "attachments": "A message with attachments",
    "failed": "An error of the API, then an agent that died",
    "interrupted-input": "An interrupt while the input of a call is streamed",
    "interrupted-text": "An interrupt while a text is streamed",
    "interrupted-tool": "An interrupt while a tool runs",
    "not-streamed": "An answer that arrives in whole blocks",
    "own-turn": "A turn that the agent starts by itself",
    "parallel-tools": "Two calls at the same time",
    "permission": "A permission request that a person answers, and one that is cancelled",
    "results": "Results of tools of every type",
    "streamed-with-tool": "A streamed answer with a tool between its texts",
    "subagent": "A subagent that calls a tool",
    "thinking": "An answer with thinking",
    "two-turns": "Two turns of one process",
    "without-input": "A call without input",
    "budget": "The size of the context",
    "images": "A picture in a prompt",
    "plan": "A plan that waits for approval",
    "question": "A question to the user",
    "taken-back": "A prompt that is taken back",
    "taken-from-the-queue": "A message that leaves the queue",
    "transcript": "A session that another program runs, read from its transcript",
    "archived": "A session that is archived and restored",
    "compaction": "A compaction",
    "copies": "Records of the wire and their copies in the transcript",
    "failed-start": "An agent that cannot be started",
    "interrupt": "An interrupted turn",
    "modes": "Changes of the permission mode",
    "permissions": "Permissions, questions and plans, and how each ends",
    "seed-transcript": "The transcript from the protocol's own description",
    "send-and-tool": "A prompt, a call and an answer",
    "stream-cut-off": "A stream that ends in the middle of a message",
    "streaming": "A streamed message with blocks of three kinds",
    "subagent-transcript": "A subagent, read from the transcript",
    "todos-and-limits": "Todos and rate limits",
    "unknown-records": "Records of unknown types",
    "agent-visible": "A call of Agent is shown, and names its subagent",
    "background": "A background subagent that outlives its turn",
    "beside-a-result-transcript": "Text next to a tool result, in the transcript",
    "beside-a-result-wire": "Text next to a tool result, on the wire",
    "compact-summary-of-the-assistant": "The assistant's summary of a compaction",
    "example-1": "Example 1 of the protocol's description: a turn without subagents",
    "example-2": "Example 2 of the protocol's description: a subagent",
    "example-3": "Example 3 of the protocol's description: a child before its call",
    "example-4": "Example 4 of the protocol's description: a row read again",
    "example-5": "Example 5 of the protocol's description: an abort",
    "example-5-told-by-the-cli": "The abort of example 5, as the CLI reports it",
    "local-commands": "Output of local commands in user records",
    "nested": "A subagent of a subagent",
    "shell-mode": "The shell mode of the CLI",
    "task-in-other-words": "A subagent whose first row differs from the prompt of its call",
    "task-without-children": "A subagent without recorded work",
}


def log_of(protocol: str, data: bytes, shared: bool) -> EventLog:
    given = [json.loads(line) for line in data.splitlines()]
    if protocol == "happy":
        return EventLog(tuple(MappedSession().run(given).entries))
    if protocol == "mylifedb":
        session = view_offline.ViewRecorder().run(given)
        return EventLog(tuple(session.entries), session.gone)
    if shared:
        begin, view_offline.BEGIN = view_offline.BEGIN, chat_offline.BEGIN
        session = view_offline.ViewRecorder().run(given)
        view_offline.BEGIN = begin
        return EventLog(tuple(session.entries), session.gone)
    chat = chat_offline.ChatRecorder().run(given)
    return EventLog(tuple(chat.published), chat.gone)


def main() -> None:
    old: dict[tuple[str, str], dict[str, bytes]] = {}
    for protocol in OLD:
        for folder in sorted((GOLDEN / protocol).iterdir()):
            old[protocol, folder.name] = {file.name: file.read_bytes() for file in folder.iterdir()}
    users: dict[bytes, list[tuple[str, str]]] = {}
    for key, files in old.items():
        users.setdefault(files["in.jsonl"], []).append(key)
    total = differ = 0
    for protocol in OLD:
        equal: dict[str, int] = {}
        for (owner, name), files in old.items():
            if owner != protocol:
                continue
            case = RENAMED.get((protocol, name), name)
            if case != name:
                subprocess.run(["git", "mv", GOLDEN / protocol / name, GOLDEN / protocol / case], check=True)
            folder = GOLDEN / protocol / case
            shared = len(users[files["in.jsonl"]]) > 1
            place = GOLDEN / "sessions" / case if shared else folder
            place.mkdir(parents=True, exist_ok=True)
            log = log_of(protocol, files["in.jsonl"], shared)
            (place / "events.jsonl").write_bytes(encode_log(log))
            again = read_log(protocol, case)
            assert (again.entries, again.gone) == (log.entries, log.gone), (protocol, case)
            made = asyncio.run(outputs(protocol, again))
            for new, before in OLD[protocol].items():
                total += 1
                data = made.get(new, made["live.jsonl"])
                if data == files[before]:
                    equal[f"{before} = {new}"] = equal.get(f"{before} = {new}", 0) + 1
                else:
                    differ += 1
                    print(f"DIFFERENT {protocol}/{name}: {before}, {new}")
                    for one, two in zip(files[before].splitlines(), data.splitlines(), strict=False):
                        if one != two:
                            print("  -", one[:200], "\n  +", two[:200])
                            break
                    print("  lines:", len(files[before].splitlines()), len(data.splitlines()))
            for file in folder.iterdir():
                if file.name != "events.jsonl":
                    file.unlink()
            for new, data in made.items():
                (folder / new).write_bytes(data)
            (folder / "case.toml").write_text(f'title = "{TITLES[case]}"\n')
        print(protocol, equal)
    print(f"{total - differ} of {total} outputs are equal to the old files, byte for byte; {differ} differ")


main()
