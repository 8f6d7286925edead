"""The real CLI on its own wire, driven by our codec: for the seed's statements about the program itself."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec

from fairlead.agents.claude.wire import control
from fairlead.agents.claude.wire.control import user_line
from fairlead.agents.links.framing import LineSplitter
from patience import PATIENCE

Message = dict[str, Any]

BASE = ("-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
ASKING = ("--permission-prompt-tool", "stdio")
IN_DEFAULT_MODE = ("--permission-mode", "default")
"""2.1.300 starts in the mode auto."""


def allow(request: Message) -> control.AllowTool | control.DenyTool:
    return control.AllowTool(updatedInput=request["input"])


class RealCli:
    """One process. Its own requests are answered by `permission`, `hook` and `mcp`, unless they are None.

    A start costs more than a turn, so a test may play several scenes on one process: in each, `seen` and `sent`
    start empty, and requests are answered as at first.
    """

    def __init__(self, program: Path, env: dict[str, str], cwd: Path) -> None:
        self.program = program
        self.env = env
        self.cwd = cwd
        self.seen: list[Message]
        self.sent: list[bytes]
        self.stderr = ""
        self.permission: Callable[[Message], Any] | None
        self.hook: Callable[[Message], Any] | None
        self.mcp: Callable[[Message], Message] = lambda message: {}
        self._news = asyncio.Condition()
        self.scene()

    def scene(self) -> None:
        """Begin a new scene: the messages so far belong to an earlier scene of the test."""
        self.seen, self.sent = [], []
        self._taken = 0
        self.permission = allow
        self.hook = lambda request: control.HookAnswer()

    async def start(self, *arguments: str, base: tuple[str, ...] = (*BASE, *ASKING)) -> None:
        pipe = asyncio.subprocess.PIPE
        mode = () if any(word.startswith("--permission-mode") for word in arguments) else IN_DEFAULT_MODE
        self.process = await asyncio.create_subprocess_exec(
            self.program, *base, *mode, *arguments, env=self.env, cwd=self.cwd, stdin=pipe, stdout=pipe, stderr=pipe
        )
        self._reading = asyncio.create_task(self._read())
        self._complaining = asyncio.create_task(self._complain())

    async def _read(self) -> None:
        splitter = LineSplitter()
        assert self.process.stdout is not None
        while data := await self.process.stdout.read(1 << 16):
            for line in splitter.feed(data):
                assert isinstance(line, bytes)
                message = msgspec.json.decode(line)
                async with self._news:
                    self.seen.append(message)
                    self._news.notify_all()
                await self._serve(message)
        async with self._news:
            self._news.notify_all()

    async def _complain(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.stderr += line.decode(errors="replace")

    async def _serve(self, message: Message) -> None:
        if message.get("type") != "control_request":
            return
        request, name = message["request"], message["request_id"]
        if request["subtype"] == "can_use_tool" and self.permission is not None:
            await self.write(control.answer_line(name, self.permission(request)))
        elif request["subtype"] == "hook_callback" and self.hook is not None:
            await self.write(control.answer_line(name, self.hook(request)))
        elif request["subtype"] == "mcp_message":
            await self.write(control.mcp_answer_line(name, self.mcp(request["message"])))

    # --- sending

    async def write(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.sent.append(line)
        self.process.stdin.write(line)
        with contextlib.suppress(ConnectionError):
            await self.process.stdin.drain()

    async def prompt(self, content: Any, name: str = "", session: str = "") -> str:
        name = name or str(uuid.uuid4())
        await self.write(user_line(content, session, name))
        return name

    async def turn(self, content: Any) -> Message:
        await self.prompt(content)
        return await self.until("result")

    async def ask(self, subtype: str, /, **fields: Any) -> Message:
        """Send a request and return the whole inner answer: `subtype` success or error."""
        name = str(uuid.uuid4())
        await self.write(control.request_line(name, subtype, fields))
        answer = await self.until(
            lambda m: m.get("type") == "control_response" and m["response"].get("request_id") == name, rewind=True
        )
        return dict(answer["response"])

    async def got(self, subtype: str, /, **fields: Any) -> Any:
        """The answer to a request that must succeed."""
        answer = await self.ask(subtype, **fields)
        assert answer["subtype"] == "success", answer
        return answer.get("response") or {}

    async def set_up(self, **fields: Any) -> Any:
        return await self.got("initialize", **fields)

    # --- receiving

    async def until(self, wanted: str | Callable[[Message], bool], *, rewind: bool = False) -> Message:
        fits = (lambda m: m.get("type") == wanted) if isinstance(wanted, str) else wanted
        place = 0 if rewind else self._taken
        async with self._news:
            try:
                async with asyncio.timeout(PATIENCE):
                    while True:
                        while place < len(self.seen):
                            place += 1
                            if fits(self.seen[place - 1]):
                                self._taken = max(self._taken, place) if not rewind else self._taken
                                return self.seen[place - 1]
                        assert not self._reading.done(), f"it ended: {self.stderr[-500:]}"
                        await self._news.wait()
            except TimeoutError:
                raise AssertionError(f"did not come: {wanted}; {[m.get('type') for m in self.seen][-20:]}") from None

    def all(self, kind: str, subtype: str = "") -> list[Message]:
        return [
            m
            for m in self.seen
            if m.get("type") == kind and subtype in ("", m.get("subtype"), (m.get("request") or {}).get("subtype"))
        ]

    @property
    def init(self) -> Message:
        return self.all("system", "init")[-1]

    def asked(self) -> list[str]:
        """The tools that it asked permission for."""
        return [m["request"]["tool_name"] for m in self.all("control_request", "can_use_tool")]

    def transcript(self, session: str = "") -> Path:
        (found,) = Path(self.env["HOME"]).glob(f".claude/projects/*/{session or self.init['session_id']}.jsonl")
        return found

    # --- ending

    async def close(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return await self.ended()

    async def ended(self) -> int:
        async with asyncio.timeout(PATIENCE):
            await self._reading
            await self._complaining
            return await self.process.wait()

    async def end(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.ended()


@contextlib.asynccontextmanager
async def real_cli(
    program: Path, env: dict[str, str], cwd: Path, *arguments: str, base: tuple[str, ...] = (*BASE, *ASKING)
) -> AsyncIterator[RealCli]:
    cli = RealCli(program, env, cwd)
    await cli.start(*arguments, base=base)
    try:
        yield cli
    finally:
        await cli.end()
