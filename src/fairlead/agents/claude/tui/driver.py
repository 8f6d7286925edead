"""The driver of Claude Code in a terminal: its keys go through a PTY, its records come from its transcript.

It answers no dialog. Facts from other sources than the transcript (hooks, the screen) reach the interpreter as markers.
A CLI whose terminal the keeper holds outlives the gateway: the next one continues from what was stored with the records
(`stored_state`) and from the screen.
"""

import asyncio
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec

from fairlead.agents.claude.base_driver import ClaudeDriver
from fairlead.agents.claude.launch import ALWAYS_ASKED, ASK_BINDS_SINCE, PreparedLaunch, resumes_by_command
from fairlead.agents.claude.stdio import tool_hooks
from fairlead.agents.claude.tui import keys, stored_state
from fairlead.agents.claude.tui import screen as screens
from fairlead.agents.claude.tui.awaited_rows import AwaitedRows, prompt_in
from fairlead.agents.claude.tui.hook_server import HookEndpoint
from fairlead.agents.claude.tui.notices import ScreenNotices
from fairlead.agents.claude.tui.prompt_typing import PromptTyper, TypingFailed
from fairlead.agents.claude.tui.stored_state import Part, Ready, TranscriptPlace, TypedText
from fairlead.agents.claude.tui.transcript_tail import TranscriptTail
from fairlead.agents.claude.wire.control import HookAnswer
from fairlead.agents.claude.wire.decode import decode
from fairlead.agents.claude.wire.markers import TerminalMarker, TypedPrompt, encode_marker
from fairlead.agents.driver import background_tasks
from fairlead.agents.links.kept_output import KeptOutput
from fairlead.model.agents import AgentSink, Exit, Record
from fairlead.model.commands import Settings
from fairlead.model.content import TextBlock, content_blocks, plain_text
from fairlead.model.errors import AgentNotRunning, AgentRefused, BadRequest
from fairlead.model.policy import Behavior
from fairlead.model.store import StoredOutput
from fairlead.system.clock import Clock, ends_within
from fairlead.system.tasks import run_until
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
ESCAPES: Final = 3
ESCAPE_SECONDS: Final = 3.0
LAST_LINES: Final = 12
MOST_TYPED: Final = 4000
"""Characters of a prompt that are stored to recognize it in the box: about what a screen shows."""
OTHER_LINK: Final = "A terminal has no control requests: hand the session over to stdio (fairlead hand-over)."


class ClaudeTerminal(ClaudeDriver):
    _permissions: tool_hooks.HookPermissions

    def __init__(
        self,
        prepared: PreparedLaunch,
        terminal: Terminal,
        post: HookEndpoint,
        sink: AgentSink,
        clock: Clock,
        *,
        gateway: str = "",
        stored: StoredOutput | None = None,
    ) -> None:
        """`gateway`: the address for its hooks. `stored`: what an earlier gateway stored about this process."""
        super().__init__(terminal, sink, clock, prepared.version)
        launch = prepared.launch
        self.terminal = terminal
        self._post = post
        self._output = KeptOutput(lambda offset: None, stored) if terminal.survives else None
        self._before = before = stored_state.decode(stored)
        self._rows = TranscriptTail.open(prepared, clock, self.records, before.place)
        stored_state.remember(self._output, (self._rows.place(), before.ready, before.shown, before.typed))
        self._gateway = gateway
        self._released = asyncio.Event()
        self._ready = TerminalMarker(
            what="ready",
            agent_session=prepared.agent_session if before.place is None else self._rows.path.stem,
            version=self.version,
            mode=launch.settings.mode,
            cwd=prepared.cwd,
        )
        self._resume_by_command = launch.resume if resumes_by_command(prepared.version) else ""
        self._forked = launch.resume if launch.fork else ""
        """The conversation that was forked: 2.1.37 reports its id when it starts."""
        self._notices = ScreenNotices(self._mark, before.shown)
        self._typer = PromptTyper(terminal, clock, prepared.version, self._notices.show)
        self._typer.text = before.typed.text if before.typed is not None else ""
        self._stirred = asyncio.Event()
        self._awaited = AwaitedRows(self._rows, terminal, clock)
        self._interrupted = False
        self._prompts = 0
        self._tasks = background_tasks("a terminal's driver failed")
        self._resumed = asyncio.Event()
        self._up = False
        self.is_busy = False
        """Whether a prompt of ours was typed and its turn is not over."""
        self._permissions = tool_hooks.HookPermissions(sink, self._deliver, prepared.version, clock, self._output)
        self.moved: Callable[[str], None] = lambda agent_session: None
        """Called when a person continues with another conversation in the terminal."""

    # --- its life ------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start watching, and wait until its prompt is there or it asks a person something. Raises AgentNotRunning."""
        await self._begin(self._until_ready())
        self._up = True

    async def _until_ready(self) -> None:
        ready = self._before.ready
        await self._permissions.expect(self._before.hooks)
        if ready is None:
            await self._until_up()
            ready = Ready(self._gateway)
            await self._mark(self._ready, ready)
        else:
            await self._until_drawn()
            await self._rows.look()
            self.is_busy = self._typer.view.state == "working"
        if ready.up:
            return
        if self._resume_by_command:
            await self._take_up(self._resume_by_command)
        await self._deliver((), parts=(msgspec.structs.replace(ready, up=True),))

    @property
    def kept(self) -> bool:
        return self.terminal.survives

    @property
    def running(self) -> bool:
        return self.terminal.running and not self._released.is_set()

    @property
    def conversation(self) -> str:
        """The CLI's id of the conversation in the terminal."""
        return self._ready.agent_session

    async def release(self) -> None:
        """Stop watching. The CLI goes on, and its open hooks try again until the next gateway answers them."""
        if not self.kept:
            await super().release()
        self._permissions.release()
        await self._post.release()
        self._released.set()

    async def _until_up(self) -> None:
        def up() -> bool:
            return self._typer.view.state != "starting" or not self.terminal.running

        await ends_within(self._clock, START_SECONDS, self._until(up))
        await self._until_drawn()
        if not self.terminal.running:
            raise AgentNotRunning(f"The agent ended before it was ready: {self._last_lines() or 'its screen is empty'}")
        if self._typer.view.state == "starting":
            await self._notices.show(self._typer.view)

    async def _until_drawn(self) -> None:
        """Wait until the screen is drawn: the first prompt may be drawn again, over text that was typed into it."""
        end = self._clock.monotonic() + DRAWING_SECONDS
        while self.terminal.running and self._clock.monotonic() < end:
            change = self.terminal.changed(self.terminal.screen.version)
            if not await ends_within(self._clock, STILL_SECONDS, change):
                return

    async def _take_up(self, conversation: str) -> None:
        if self._typer.view.state == "dialog":
            await self._until(lambda: self._typer.view.state != "dialog")
        await self._typer.command(f"/resume {conversation}")
        if not await ends_within(self._clock, START_SECONDS, self._resumed.wait()):
            text = " ".join(self._last_lines().split())
            raise AgentNotRunning(f"No conversation found, or it could not be resumed: {text}")

    async def _read_records(self) -> None:
        watching = [asyncio.create_task(work) for work in (self._watch(), self._rows.follow(), self._settle())]
        try:
            failed = asyncio.wait(watching, return_when=asyncio.FIRST_EXCEPTION)
            await run_until(self.terminal.wait(), failed, self._released.wait())
            for task in watching:
                if task.done() and not task.cancelled() and task.exception() is not None:
                    # The store failed: the agent's records cannot be stored, so it must not continue.
                    logger.error("the agent's records could not be stored", exc_info=task.exception())
        finally:
            for task in watching:
                task.cancel()
            await asyncio.wait(watching)

    async def _finish(self, ended: Exit) -> Exit:
        self._typer.seen(self._typer.view)
        self._awaited.arrived(())
        await (self._rows.leave() if self._released.is_set() else self._rows.finish())
        await self._permissions.wait_finished()
        await self._tasks.wait()
        return msgspec.structs.replace(ended, stderr=self._last_lines()) if ended.code else ended

    async def _end(self) -> Exit:
        if self._released.is_set():
            return Exit()
        await self._post.close("The gateway ends this agent.")
        return await self.terminal.stop()

    def _last_lines(self) -> str:
        lines = [line.strip() for line in self.terminal.screen.lines if line.strip()]
        return "\n".join(lines[-LAST_LINES:])

    # --- screen and transcript -----------------------------------------------------------------------------

    async def _watch(self) -> None:
        version = 0
        while self.terminal.running:
            screen = await self.terminal.changed(version)
            version = screen.version
            view = screens.read(screen)
            if view != self._typer.view:
                self._notices.seen(view)
                self._typer.seen(view)
                self._stirred.set()
            self._rows.nudge()

    async def _deliver(
        self, batch: Sequence[Record], end: int | None = None, parts: Sequence[Part | None] = ()
    ) -> None:
        """Log the records, and in the same append store what the next gateway must know about them."""
        async with self._in_order:
            stored_state.remember(self._output, parts)
            await self._sink.records(batch, None if self._output is None else self._output.position(0))

    async def records(self, batch: Sequence[Record], place: TranscriptPlace | None) -> None:
        """Deliver rows of the transcript, and note typed prompts and calls that have arrived."""
        prompts = [text for record in batch if (text := prompt_in(record)) is not None]
        await self._deliver(batch, parts=(place,))
        for text in prompts:
            self._typer.written(text)
        self._awaited.arrived(batch)
        self._stirred.set()

    async def _mark(self, marker: TerminalMarker, part: Part | None = None) -> None:
        named = msgspec.structs.replace(marker, cause=str(uuid.uuid4()))
        await self._deliver([Record(encode_marker(named), "gateway")], parts=(part,))

    async def _settle(self) -> None:
        """End a turn when the agent is back at its prompt with nothing more to come. Emits notices about dialogs."""
        while True:
            await self._stirred.wait()
            if not await self._stays_quiet(IDLE_SECONDS):
                continue
            if self._typer.view.state == "dialog":
                await self._notices.show(self._typer.view)
            if not self._is_at_rest():
                continue
            if self._interrupted and self._typer.view.state == "typed":
                await self._typer.erase()  # an interrupt before the first output puts the prompt back into the box
            await self._end_turn("idle")
            if await self._stays_quiet(LEFT_SECONDS) and self._is_at_rest():
                await self._end_turn("left")

    def _is_at_rest(self) -> bool:
        return not self._typer.typing and self._typer.view.state in ("prompt", "typed")

    async def _stays_quiet(self, seconds: float) -> bool:
        """Whether nothing happens for this long, on the screen or in the transcript."""
        self._stirred.clear()
        return not await ends_within(self._clock, seconds, self._stirred.wait()) and not await self._rows.look()

    async def _end_turn(self, what: str) -> None:
        self.is_busy = self._interrupted = False
        await self._mark(TerminalMarker(what=what))

    async def _until(self, reached: Callable[[], bool]) -> None:
        version = 0
        while not reached():
            version = (await self.terminal.changed(version)).version
            await asyncio.sleep(0)
            if not self.terminal.running:
                return

    # --- its hooks -----------------------------------------------------------------------------------------

    async def before_tool(self, given: Mapping[str, Any]) -> HookAnswer:
        self._follow(given)
        check = tool_hooks.parse_call(given)
        if isinstance(check, HookAnswer):
            return check
        await self._awaited.row_of(check.call)
        if self._version < ASK_BINDS_SINCE and check.tool in ALWAYS_ASKED:
            # This version asks a person on its screen, whatever a hook answers: `_settle` emits a notice about that.
            verdict = await self._permissions.verdict(check)
            return tool_hooks.deny(verdict.reason) if verdict.behavior is Behavior.DENY else HookAnswer()
        return await self._permissions.pre_tool_use(check)

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
        self._tasks.spawn(self._mark(self._ready, self._rows.place()))

    # --- the port `model.agents.Agent` ---------------------------------------------------------------------

    @property
    def attended(self) -> bool:
        return self.terminal.watched

    async def write(self, record: Record, *, again: bool = False) -> None:
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
        text = plain_text(content)
        stored_state.remember(self._output, (TypedText(keys.clean(text)[:MOST_TYPED]),))
        try:
            await (self._typer.repeat if again else self._typer.prompt)(text)
        except TypingFailed as error:
            self.is_busy = False
            await self._mark(TerminalMarker(what="untyped", message=prompt.uuid, text=str(error)))
        self._stirred.set()

    async def interrupt(self, key: str = "") -> None:
        if not self.terminal.running:
            raise AgentNotRunning("The agent has exited.")
        self._interrupted = True
        if self._typer.typing and not self._typer.entered:
            self._typer.withdraw()
        else:
            self._tasks.spawn(self._escape())

    async def _escape(self) -> None:
        """Press Esc until the CLI stops. Never at the prompt: there, pressing it twice would open a menu. A prompt that
        was just entered shows as work a moment later."""
        prompt = self._prompts
        for _ in range(ESCAPES):
            await self._for_a_while(lambda: not self._is_still() or not self.is_busy)
            if self._is_still() or self._prompts != prompt:
                break  # it has stopped, or another turn is running now
            await self.terminal.write(keys.ESCAPE)
            await self._for_a_while(self._is_still)
            if self._is_still():
                break
        self._stirred.set()

    async def _for_a_while(self, reached: Callable[[], bool]) -> None:
        await ends_within(self._clock, ESCAPE_SECONDS, self._until(reached))

    def _is_still(self) -> bool:
        return self._typer.view.state not in ("working", "dialog")

    async def control(self, subtype: str, fields: Mapping[str, Any], timeout: float | None = None) -> Any:
        raise AgentRefused(OTHER_LINK, subtype=subtype)

    async def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise AgentRefused(OTHER_LINK)

    set_mode = set_model = set_thinking = rewind = _refuse

    async def set_variables(self, variables: Mapping[str, str]) -> None:
        raise AgentRefused("A program in a terminal accepts no environment variables while it runs.")

    def needs_restart(self, old: Settings, new: Settings) -> bool:
        return old != new
