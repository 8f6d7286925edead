"""The driver of Claude Code in a terminal: its keys go through a PTY, its records come from its transcript.

It answers no dialog. Facts from other sources than the transcript (hooks, the screen) reach the interpreter as markers.
The order is guaranteed as in `stdio.driver`: records reach the sink in order, and `exited` comes once, after the last
record, for every process that was recorded.
"""

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from fairlead.agents.claude.launch import ALWAYS_ASKED, ASK_BINDS_SINCE
from fairlead.agents.claude.stdio.tool_hooks import (
    HookPermissions,
    check_policy,
    from_verdict,
    not_understood,
    parse_call,
)
from fairlead.agents.claude.tui import keys
from fairlead.agents.claude.tui import screen as screens
from fairlead.agents.claude.tui.hook_server import HookEndpoint
from fairlead.agents.claude.tui.prompt_typing import PromptTyper, TypingFailed, notice_text
from fairlead.agents.claude.tui.screen import ScreenState
from fairlead.agents.claude.tui.transcript_tail import TranscriptTail
from fairlead.agents.claude.versions import Version, abilities
from fairlead.agents.claude.wire.control import HookAnswer
from fairlead.agents.claude.wire.decode import decode, decode_row
from fairlead.agents.claude.wire.markers import TerminalMarker, TypedPrompt, encode_marker
from fairlead.agents.claude.wire.records import UserRecord
from fairlead.model.agents import AgentSink, Decision, Exit, Record
from fairlead.model.commands import Settings
from fairlead.model.content import TextBlock, content_blocks, plain_text
from fairlead.model.errors import AgentFailed, AgentNotRunning, AgentRefused, BadRequest, FairleadError
from fairlead.model.ids import CallId, RequestId
from fairlead.model.policy import Behavior
from fairlead.system.clock import Clock, within
from fairlead.terminals.api import Terminal

logger = logging.getLogger("fairlead.agents.claude")

START_SECONDS: Final = 60.0
"""Time until its prompt, or a dialog, is on the screen: 2.1.37 takes some 3 s on an idle machine."""
STILL_SECONDS: Final = 0.3
DRAWING_SECONDS: Final = 3.0
"""A screen counts as drawn when it has not changed for `STILL_SECONDS`, or after `DRAWING_SECONDS` at the latest."""
IDLE_SECONDS: Final = 0.7
"""The turn is over when the CLI is back at its prompt this long and writes nothing: rows lag a tenth of a second
behind."""
LEFT_SECONDS: Final = 10.0
"""After this long, a turn without an answer is over too."""
ROW_SECONDS: Final = 1.5
"""How long a hook waits for the row of its call, which may come later; it follows within tenths of a second."""
ESCAPES: Final = 3
ESCAPE_SECONDS: Final = 3.0
LAST_LINES: Final = 12
OTHER_LINK: Final = "A terminal has no control requests: hand the session over to stdio (fairlead hand-over)."


class ClaudeTerminal:
    """A running Claude in a terminal. Implements `model.agents.Agent`."""

    def __init__(self, terminal: Terminal, sink: AgentSink, clock: Clock, version: Version) -> None:
        self._terminal = terminal
        self._sink = sink
        self._clock = clock
        self._version = version
        self._in_order = asyncio.Lock()
        self._typist = PromptTyper(terminal, clock, version, self._show)
        self._shown: tuple[str, list[str]] | None = None
        self._stirred = asyncio.Event()
        self._row = asyncio.Event()
        self._calls: dict[str, None] = {}
        self._interrupted = False
        self._prompts = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._life: asyncio.Task[Exit] | None = None
        self._resumed = asyncio.Event()
        self._up = False
        self.is_busy = False
        """Whether a prompt of ours was typed and its turn is not over."""
        self.permits = HookPermissions(sink, self.deliver, version)
        self.moved: Callable[[str], None] = lambda agent_session: None
        """Called when a person continues with another conversation in the terminal."""

    # --- its life ------------------------------------------------------------------------------------------

    async def start(
        self, rows: TranscriptTail, post: HookEndpoint, ready: TerminalMarker, *, resume: str = "", forked: str = ""
    ) -> None:
        """Start watching, and wait until its prompt is there or it asks a person something. Raises AgentNotRunning.

        `resume`: the conversation to resume, in versions that do so only by their own command. `forked`: the
        conversation that was forked, whose id 2.1.37 reports when it starts."""
        self._rows, self._post, self._ready, self._forked = rows, post, ready, forked
        self._life = asyncio.create_task(self._live())
        try:
            await self._until_up()
            await self._mark(ready)
            if resume:
                await self._take_up(resume)
        except AgentNotRunning as error:
            await self._end()
            ended = await self._life
            raise AgentNotRunning(error.message, code=ended.code, signal=ended.signal) from error
        except BaseException:
            await self._end()
            raise
        self._up = True

    async def _until_up(self) -> None:
        def up() -> bool:
            return self._typist.view.state != "starting" or not self._terminal.running

        with contextlib.suppress(TimeoutError):
            await within(self._clock, START_SECONDS, self._until(up))
        await self._until_drawn()
        if not self._terminal.running:
            raise AgentNotRunning(f"The agent ended before it was ready: {self._last_words() or 'it said nothing'}")
        if self._typist.view.state == "starting":
            await self._show(self._typist.view)

    async def _until_drawn(self) -> None:
        """Wait until the screen is drawn: the first prompt may be drawn again, over text that was typed into it."""
        end = self._clock.monotonic() + DRAWING_SECONDS
        while self._terminal.running and self._clock.monotonic() < end:
            try:
                await within(self._clock, STILL_SECONDS, self._terminal.changed(self._terminal.screen.version))
            except TimeoutError:
                return

    async def _take_up(self, conversation: str) -> None:
        if self._typist.view.state == "dialog":
            await self._until(lambda: self._typist.view.state != "dialog")
        await self._typist.command(f"/resume {conversation}")
        try:
            await within(self._clock, START_SECONDS, self._resumed.wait())
        except TimeoutError:
            text = " ".join(self._last_words().split())
            raise AgentNotRunning(f"No conversation found, or it could not be taken up: {text}") from None

    async def _live(self) -> Exit:
        watching = [asyncio.create_task(work) for work in (self._watch(), self._rows.follow(), self._settle())]
        try:
            failed = asyncio.wait(watching, return_when=asyncio.FIRST_EXCEPTION)
            ending = asyncio.create_task(self._terminal.wait())
            await asyncio.wait({ending, asyncio.ensure_future(failed)}, return_when=asyncio.FIRST_COMPLETED)
            for task in watching:
                if task.done() and not task.cancelled() and task.exception() is not None:
                    # The store failed: the agent's records cannot be stored, so it must not continue.
                    logger.error("the agent's records could not be handed on", exc_info=task.exception())
        finally:
            for task in watching:
                task.cancel()
            await asyncio.wait(watching)
        ended = await self._end()
        self._typist.seen(self._typist.view)
        self._row.set()
        try:
            await self._rows.finish()
            await self.permits.wait_finished()
            while self._tasks:
                await asyncio.wait(self._tasks)
            if ended.code:
                ended = msgspec.structs.replace(ended, stderr=self._last_words())
            await self._sink.exited(ended)
        except Exception:
            logger.exception("the end of the agent could not be told", extra={"pid": self.pid})
        return ended

    async def stop(self, reason: str) -> Exit:
        logger.info("the agent is ended", extra={"pid": self.pid, "reason": reason})
        return await self._end()

    async def _end(self) -> Exit:
        await self._post.close("The gateway ends this agent.")
        return await self._terminal.stop()

    def _last_words(self) -> str:
        lines = [line.strip() for line in self._terminal.screen.lines if line.strip()]
        return "\n".join(lines[-LAST_LINES:])

    # --- screen and transcript -----------------------------------------------------------------------------

    async def _watch(self) -> None:
        version = 0
        while self._terminal.running:
            screen = await self._terminal.changed(version)
            version = screen.version
            view = screens.read(screen)
            if view != self._typist.view:
                if view.state != "dialog":
                    self._shown = None
                self._typist.seen(view)
                self._stirred.set()
            self._rows.nudge()

    async def records(self, batch: Sequence[Record]) -> None:
        """Deliver rows of the transcript, and note typed prompts and calls that have arrived."""
        await self.deliver(batch)
        for record in batch:
            row = decode_row(record.raw) if b'"user"' in record.raw and record.origin == "transcript" else None
            if isinstance(row, UserRecord) and row.isSidechain is not True and not row.isMeta:
                self._typist.written(plain_text(content_blocks(row.message.content)))
            for call in [call for call in self._calls if call.encode() in record.raw]:
                del self._calls[call]
        self._row.set()
        self._stirred.set()

    async def deliver(self, batch: Sequence[Record]) -> None:
        async with self._in_order:
            await self._sink.records(batch)

    async def _mark(self, marker: TerminalMarker) -> None:
        named = msgspec.structs.replace(marker, cause=str(uuid.uuid4()))
        await self.deliver([Record(encode_marker(named), "gateway")])

    async def _show(self, view: ScreenState) -> None:
        """Emit a notice about a screen that only a person at the terminal can answer.

        It is emitted once, even if the person moves between its choices."""
        looks = "".join(view.lines).replace("❯", "").split()
        if (view.state, looks) == self._shown:
            return
        self._shown = (view.state, looks)
        kind, text = notice_text(view)
        await self._mark(TerminalMarker(what="shows", kind=kind, text=text, lines=view.lines))

    async def _settle(self) -> None:
        """End a turn when the agent is back at its prompt with nothing more to come. Emits notices about dialogs."""
        while True:
            await self._stirred.wait()
            if not await self._quiet(IDLE_SECONDS):
                continue
            if self._typist.view.state == "dialog":
                await self._show(self._typist.view)
            if not self._rests():
                continue
            if self._interrupted and self._typist.view.state == "typed":
                await self._typist.erase()  # an interrupt before the first output puts the prompt back into the box
            await self._over("idle")
            if await self._quiet(LEFT_SECONDS) and self._rests():
                await self._over("left")

    def _rests(self) -> bool:
        return not self._typist.typing and self._typist.view.state in ("prompt", "typed")

    async def _quiet(self, seconds: float) -> bool:
        """Whether nothing happens for this long, on the screen or in the transcript."""
        self._stirred.clear()
        try:
            await within(self._clock, seconds, self._stirred.wait())
        except TimeoutError:
            return not await self._rows.look()
        return False

    async def _over(self, what: str) -> None:
        self.is_busy = self._interrupted = False
        await self._mark(TerminalMarker(what=what))

    async def _until(self, reached: Callable[[], bool]) -> None:
        version = 0
        while not reached():
            screen = await self._terminal.changed(version)
            version = screen.version
            await asyncio.sleep(0)
            if not self._terminal.running:
                return

    # --- its hooks -----------------------------------------------------------------------------------------

    async def before_tool(self, given: Mapping[str, Any]) -> HookAnswer:
        self._follow(given)
        try:
            check = parse_call(given)
        except msgspec.ValidationError as error:
            return not_understood(error)
        await self._row_of(check.call)
        if self._version < ASK_BINDS_SINCE and check.tool in ALWAYS_ASKED:
            # This version asks a person on its screen, whatever a hook answers: `_settle` emits a notice about that.
            verdict = await check_policy(self._sink, check)
            return from_verdict(verdict, self._version) if verdict.behavior is Behavior.DENY else HookAnswer()
        return await self.permits.pre_tool_use(given)

    async def _row_of(self, call: CallId) -> None:
        """Wait for the row of a call, so that clients see the call before its permission request."""
        if not call:
            return
        self._calls[call] = None

        async def arrived() -> None:
            while call in self._calls and self._terminal.running:
                self._row.clear()
                await self._rows.look()
                if call in self._calls:
                    await self._row.wait()

        with contextlib.suppress(TimeoutError):
            await within(self._clock, ROW_SECONDS, arrived())
        self._calls.pop(call, None)

    async def stopped(self, given: Mapping[str, Any]) -> HookAnswer:
        self._follow(given)
        await self._rows.look()
        self.is_busy = False
        await self._mark(TerminalMarker(what="stopped"))
        return HookAnswer()

    async def conversation_started(self, given: Mapping[str, Any]) -> HookAnswer:
        """Handle SessionStart: our command resumed our conversation, or a person cleared or resumed one."""
        conversation, source = given.get("session_id"), given.get("source")
        if source == "resume" and conversation == self._ready.agent_session:
            self._resumed.set()
        elif source == "clear" or (self._up and conversation != self._forked):
            self._follow(given)
        return HookAnswer()

    def _follow(self, given: Mapping[str, Any]) -> None:
        """Follow the conversation that a hook names: a person may have continued with another one."""
        path, conversation = given.get("transcript_path"), given.get("session_id")
        if not isinstance(path, str) or not isinstance(conversation, str) or Path(path) == self._rows.path:
            return
        if Path(path).name != f"{conversation}.jsonl" or Path(path).parent != self._rows.path.parent:
            return
        self._rows.move(Path(path))
        self._ready = msgspec.structs.replace(self._ready, agent_session=conversation)
        self.moved(conversation)
        self._start(self._mark(self._ready))

    def _start(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if not isinstance(error, AgentFailed):
            logger.error("a terminal's driver failed", exc_info=error)

    # --- the port `model.agents.Agent` ---------------------------------------------------------------------

    @property
    def running(self) -> bool:
        return self._terminal.running

    @property
    def pid(self) -> int:
        return self._terminal.pid

    @property
    def version(self) -> str:
        return ".".join(map(str, self._version))

    @property
    def attended(self) -> bool:
        return self._terminal.watched

    @property
    def modes(self) -> tuple[str, ...]:
        return abilities(self._version).modes

    async def write(self, record: Record) -> None:
        """Type a prompt. Returns when the CLI has it, or when the reason for a failure is in the log."""
        prompt = decode(record.raw)
        if not isinstance(prompt, TypedPrompt):
            raise BadRequest("Only a prompt is typed into the agent's terminal.")
        content = content_blocks(prompt.content)
        if not plain_text(content).strip() or not all(isinstance(block, TextBlock) for block in content):
            return  # already reported as failed
        self.is_busy = True
        self._prompts += 1
        self._stirred.set()
        try:
            await self._typist.prompt(plain_text(content))
        except TypingFailed as error:
            self.is_busy = False
            await self._mark(TerminalMarker(what="untyped", message=prompt.uuid, text=str(error)))
        self._stirred.set()

    async def interrupt(self) -> None:
        if not self._terminal.running:
            raise AgentNotRunning("The agent has exited.")
        self._interrupted = True
        if self._typist.typing and not self._typist.entered:
            self._typist.withdraw()
        else:
            self._start(self._escape())

    async def _escape(self) -> None:
        """Press Esc until the CLI stops. Never at the prompt: there, pressing it twice would open a menu. A prompt that
        was just entered shows as work a moment later."""
        prompt = self._prompts
        for _ in range(ESCAPES):
            await self._for_a_while(lambda: not self._is_still() or not self.is_busy)
            if self._is_still() or self._prompts != prompt:
                break  # it has stopped, or another turn is running now
            await self._terminal.write(keys.ESCAPE)
            await self._for_a_while(self._is_still)
            if self._is_still():
                break
        self._stirred.set()

    async def _for_a_while(self, reached: Callable[[], bool]) -> None:
        with contextlib.suppress(TimeoutError):
            await within(self._clock, ESCAPE_SECONDS, self._until(reached))

    def _is_still(self) -> bool:
        return self._typist.view.state not in ("working", "dialog")

    async def answer(self, request: RequestId, decision: Decision) -> None:
        if not self._terminal.running:
            raise AgentNotRunning("The agent has exited: it hears no answer any more.", request=request)
        await self.permits.answer(request, decision)

    async def control(self, subtype: str, fields: Mapping[str, Any], timeout: float | None = None) -> Any:
        raise AgentRefused(OTHER_LINK, subtype=subtype)

    async def set_mode(self, mode: str) -> None:
        raise AgentRefused(OTHER_LINK)

    async def set_model(self, model: str) -> None:
        raise AgentRefused(OTHER_LINK)

    async def set_thinking(self, budget: int | None) -> None:
        raise AgentRefused(OTHER_LINK)

    async def set_variables(self, variables: Mapping[str, str]) -> None:
        raise AgentRefused("A program in a terminal takes no environment variables while it runs.")

    def needs_restart(self, old: Settings, new: Settings) -> bool:
        return old != new


def no_steering() -> FairleadError:
    """The error for a message into a running turn: the CLI would put it into its own queue, which we do not control."""
    return AgentRefused("In a terminal nothing can be put into a running turn: wait for its end, or interrupt it.")
