"""A gateway that may be killed at any moment, as a separate process: it stores the lines of agents at a keeper.

python storing_gateway.py DATA AGENTS LINES

It stores the lines of an agent, its place in the output and the answers that it decides to give in one transaction,
acknowledges afterwards, and gives the answers. When it starts, it sends all answers again that were decided. It ends
when every agent has ended and is forgotten.
"""

import asyncio
import json
import sqlite3
import sys
from pathlib import Path

from fairlead.keeper.client import Keeper, KeptProcess, ProcessSpec, connect_or_start
from fairlead.system.clock import SystemClock

AGENT = str(Path(__file__).with_name("counting_agent.py"))
ANSWERED = 50
"""One of so many lines gets an answer."""
TABLES = """
create table if not exists lines (agent integer, line text);
create table if not exists places (agent integer primary key, offset integer);
create table if not exists answers (agent integer, key text, primary key (agent, key));
create table if not exists exits (agent integer primary key, code integer);
"""


class Store:
    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.execute("pragma journal_mode = wal")
        self._database.executescript(TABLES)

    def place(self, agent: int) -> int:
        found = self._database.execute("select offset from places where agent = ?", (agent,)).fetchone()
        return int(found[0]) if found else 0

    def answers(self, agent: int) -> list[str]:
        rows = self._database.execute("select key from answers where agent = ? order by rowid", (agent,))
        return [str(key) for (key,) in rows]

    def append(self, agent: int, lines: list[bytes], offset: int) -> list[str]:
        """Store lines. Return the keys of the answers to give."""
        numbers = [json.loads(line).get("line", -1) for line in lines]
        keys = [f"answer-{number}" for number in numbers if number >= 0 and number % ANSWERED == 0]
        execute = self._database.execute
        execute("begin")
        self._database.executemany("insert into lines values (?, ?)", [(agent, line.decode()) for line in lines])
        self._database.executemany("insert into answers values (?, ?)", [(agent, key) for key in keys])
        execute("insert or replace into places values (?, ?)", (agent, offset))
        execute("commit")
        return keys

    def exited(self, agent: int, code: int | None) -> None:
        self._database.execute("insert or ignore into exits values (?, ?)", (agent, code))

    def has_exited(self, agent: int) -> bool:
        return self._database.execute("select 1 from exits where agent = ?", (agent,)).fetchone() is not None


async def follow(process: KeptProcess, store: Store) -> None:
    agent = process.tag["agent"]
    for key in store.answers(agent):
        # Not awaited: the agent may have ended meanwhile, and its answers with it.
        answer(process, key)
    start = position = store.place(agent)
    rest = b""

    async def take(data: bytes) -> None:
        nonlocal position, rest
        *lines, rest = (rest + data).split(b"\n")
        position += len(data)
        if lines:
            keys = store.append(agent, lines, position - len(rest))
            process.ack(position - len(rest))
            for key in keys:
                answer(process, key)

    await process.read(take, start)
    store.exited(agent, (await process.wait()).code)
    process.forget()


_answering: set["asyncio.Task[None]"] = set()


def answer(process: KeptProcess, key: str) -> None:
    task = asyncio.create_task(process.write(f"{key}\n".encode(), key=key))
    _answering.add(task)
    task.add_done_callback(_answering.discard)


async def spawn(keeper: Keeper, agent: int, lines: str) -> KeptProcess:
    pause = "0.02" if agent else "0"  # the first one floods
    argv = [sys.executable, "-I", "-S", AGENT, lines, pause, str(agent)]
    return await keeper.spawn(ProcessSpec(argv=argv, env={}, cwd="/", tag={"agent": agent}))


async def main(data: Path, agents: int, lines: str) -> None:
    store = Store(data / "log.db")
    keeper = await connect_or_start(data, SystemClock())
    found = {process.tag["agent"]: process for process in keeper.found}
    for agent in range(agents):
        if agent not in found and not store.has_exited(agent):
            found[agent] = await spawn(keeper, agent, lines)
    await asyncio.gather(*(follow(process, store) for process in found.values()))
    await keeper.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
