"""A conversation on a terminal or for a script: one loop handles events, typed lines, Ctrl-C and timers in order.

One inbox, one consumer: each item is handled completely before the next one, so nothing here needs a lock.
"""

import asyncio
import itertools
import os
import signal
import sys
import uuid
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NoReturn

import msgspec

from fairlead.cli.approval_prompt import Asked, Dialog, Edit
from fairlead.cli.client import Api
from fairlead.cli.editor import edit_json
from fairlead.cli.errors import Interrupted
from fairlead.cli.output import hint, raw_line
from fairlead.cli.printer import Printer
from fairlead.cli.render import AnswerRenderer, EventRenderer, row
from fairlead.cli.rules import always
from fairlead.client.errors import ClientError, CommandFailed, Missing, Unreachable
from fairlead.client.watch import EventLine, Note
from fairlead.clients.native.schemas import AnswerBody
from fairlead.model import events as ev
from fairlead.model.commands import Reply
from fairlead.model.ids import MessageId
from fairlead.model.queries import SessionView

GRACE = 0.3
"""Seconds before a person is asked: the policy, or another client, may answer first."""
TICK = 0.2
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
AHEAD = 1000
"""Number of events read ahead of the display; beyond that the client stops reading from the socket."""

Accepts = Callable[[ev.PermissionRequested, str], bool]


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a conversation. `ask`: a person is at this terminal; `chat`: and types messages. `wait`: stay when
    another client has to answer.
    `cwd` is the session's folder. `accepts`: whether a request in this folder is allowed beforehand (--yes-to)."""

    json: bool = False
    ask: bool = False
    wait: bool = False
    chat: bool = False
    cwd: str = ""
    accepts: Accepts = lambda event, cwd: False


class ChatLoop:
    """A conversation with one session from a cursor on. `run` ends with the turn of a message, `attach` when the person
    leaves."""

    def __init__(
        self,
        api: Api,
        view: SessionView,
        printer: Printer,
        renderer: EventRenderer | AnswerRenderer,
        options: RunOptions,
    ) -> None:
        self._api = api
        self.session = view.summary.session
        self._printer = printer
        self._renderer = renderer
        self._options = options
        self._inbox: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue()
        self._room = asyncio.Semaphore(AHEAD)
        self._asked: dict[str, Asked] = {}
        self._dialog: Dialog | None = None
        self._turn = view.turn
        self._mine: MessageId | None = None
        self._my_turn: str | None = None
        self._ended: ev.TurnEnded | None = None
        self._over = False
        self._interrupted = False
        self._left = False
        self._calls: dict[str, str] = {}
        self._since = asyncio.get_running_loop().time()
        self._input = bytearray()

    async def run(self, message: MessageId, after: int, log_id: str) -> ev.TurnEnded:
        """Run until the turn of `message` has ended. Raises CommandFailed if it never got one."""
        self._mine = message
        await self.attach(after, log_id)
        assert self._ended is not None
        return self._ended

    def show(self, line: EventLine) -> None:
        """Print an event and update the state of turns, calls and requests."""
        if self._options.json:
            raw_line(line.raw)
        elif line.event is not None:
            self._printer.show(self._renderer.step(line.event))
        if line.event is not None:
            self._note(line.event)

    def show_pending(self, event: ev.Event) -> None:
        """Show a request from before the cursor that is still pending."""
        self._note(event)
        if not self._options.json:
            self._printer.show(self._renderer.step(event))

    # --- the loop ------------------------------------------------------------------------------------------

    async def attach(self, after: int, log_id: str) -> None:
        """Run until the person leaves, or the turn of our message has ended."""
        tasks = {asyncio.create_task(self._watch(after, log_id)), asyncio.create_task(self._show_progress())}
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._sigint, asyncio.current_task())
        if self._options.ask:
            loop.add_reader(sys.stdin.fileno(), self._readable)
        for request in self._asked:
            self._put(self._due, request)
        try:
            while not self._over:
                handle = await self._inbox.get()
                await handle()
        except asyncio.CancelledError:
            if not self._left:
                raise
            raise self._leaving() from None
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            loop.remove_signal_handler(signal.SIGINT)
            if self._options.ask:
                loop.remove_reader(sys.stdin.fileno())
            self._printer.fresh()

    def _put(self, handle: Callable[..., Awaitable[None]], *arguments: Any) -> None:
        self._inbox.put_nowait(partial(handle, *arguments))

    async def _watch(self, after: int, log_id: str) -> None:
        try:
            async with self._api.session(self.session).stream(after, log_id) as events:
                async for item in events:
                    await self._room.acquire()
                    self._put(self._received, item)
        except Exception as error:
            self._put(self._fail, error)

    async def _show_progress(self) -> None:
        """While the agent works without output, show its current call and the elapsed time."""
        if not self._options.ask or self._options.chat:
            return  # no person is at the terminal, or the person types on that line
        clock = asyncio.get_running_loop().time
        for tick in itertools.count():
            await asyncio.sleep(TICK)
            if self._turn is not None and self._dialog is None:
                what = list(self._calls.values())[-1] if self._calls else "working"
                self._printer.status(f"{SPINNER[tick % len(SPINNER)]} {what} · {clock() - self._since:.0f} s")

    def _readable(self) -> None:
        data = os.read(sys.stdin.fileno(), 65536)
        self._input += data
        if not data:
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            self._put(self._typed, None)
        *lines, rest = self._input.split(b"\n")
        self._input = bytearray(rest)
        for line in lines:
            self._put(self._typed, line.decode("utf-8", "replace"))

    async def _received(self, item: EventLine | Note) -> None:
        self._room.release()
        await (self._line(item) if isinstance(item, EventLine) else self._noted(item))

    async def _fail(self, error: Exception) -> NoReturn:
        raise error

    # --- events ----------------------------------------------------------------------------------------------

    async def _line(self, line: EventLine) -> None:
        self.show(line)
        event = line.event
        match event:
            case ev.PermissionRequested() | ev.QuestionAsked() | ev.PlanProposed():
                asyncio.get_running_loop().call_later(GRACE, self._put, self._due, event.request)
            case ev.PermissionResolved() | ev.PermissionCancelled():
                if self._dialog is not None and self._dialog.event.request == event.request:
                    self._dialog = None
                    if waiting := next(iter(self._asked.values()), None):
                        self._begin(waiting)
            case ev.MessageCancelled() if event.message == self._mine:
                failure = Interrupted if self._interrupted else CommandFailed
                raise failure("The message was withdrawn before its turn began.")
            case ev.TurnEnded() if self._my_turn is not None and event.turn == self._my_turn:
                self._ended = event
                self._over = True
            case _:
                pass

    def _note(self, event: ev.Event) -> None:
        match event:
            case ev.TurnStarted():
                self._turn = event.turn
                self._interrupted = False
                self._since = asyncio.get_running_loop().time()
            case ev.TurnEnded():
                self._turn = None
                self._calls.clear()
            case ev.ToolCalled():
                self._calls[event.call] = event.name
            case ev.ToolEnded():
                self._calls.pop(event.call, None)
            case ev.UserMessage() if event.message == self._mine:
                self._my_turn = event.turn or self._turn
            case ev.PermissionRequested() | ev.QuestionAsked() | ev.PlanProposed():
                self._asked[event.request] = event
            case ev.PermissionResolved() | ev.PermissionCancelled():
                self._asked.pop(event.request, None)
            case _:
                pass

    async def _noted(self, note: Note) -> None:
        self._printer.fresh()
        hint(f"— {note.text}")
        if note.kind == "back":
            await self._api.refresh()
            for request in self._asked:
                # An answer may have been lost while the gateway was away.
                self._put(self._due, request)

    # --- permission requests ---------------------------------------------------------------------------------

    async def _due(self, request: str) -> None:
        """Handle a request whose grace period is over."""
        event = self._asked.get(request)
        if event is None:
            return
        if isinstance(event, ev.PermissionRequested) and self._options.accepts(event, self._options.cwd):
            await self._answer(request, AnswerBody(behavior="allow"))
        elif self._options.ask:
            if self._dialog is None:
                self._begin(event)
        elif not self._options.wait:
            raise CommandFailed(
                "The agent needs an answer, and this command has no terminal. The request stays open; answer it with:\n"
                f"  fairlead permit {self.session} --allow     (or --deny, or --answer for a question)\n"
                f"and follow with: fairlead attach {self.session}\n"
                "Use --wait to stay until a person answers."
            )

    def _begin(self, event: Asked) -> None:
        self._dialog = Dialog(event, always(event, self._options.cwd))
        self._printer.ask(self._dialog.prompt)

    async def _answer(self, request: str, body: AnswerBody) -> None:
        try:
            await self._api.answer(request, body)
        except Unreachable:
            self._printer.show([row(("— the gateway does not answer; you are asked again when it is back", "yellow"))])
        except ClientError as error:
            # Another client answered first, or the answer is not valid: ask again while the request is open.
            self._printer.show([row((f"— {error.message}", "yellow"))])
            if self._options.ask and request in self._asked and error.code != "stale":
                self._begin(self._asked[request])

    # --- the person ------------------------------------------------------------------------------------------

    async def _typed(self, text: str | None) -> None:
        """Handle a typed line; None is the end of the input."""
        if self._dialog is None:
            if self._options.chat and text is None:
                self._over = True
            elif self._options.chat and text and text.strip():
                await self._send(text)
            elif text is None and self._mine is not None:
                raise self._leaving()
            return
        if text is None:
            raise CommandFailed(
                f"The input has ended; the request stays open. Answer it with: fairlead permit {self.session}"
            )
        dialog = self._dialog
        answer = dialog.typed(text)
        if isinstance(answer, Edit):
            answer = dialog.edited(await self._edit(answer.input))
        if answer is not None:
            self._dialog = None
            await self._answer(dialog.event.request, answer)
        else:
            if dialog.problem:
                self._printer.show([row((dialog.problem, "yellow"))])
            self._printer.ask(dialog.prompt)

    async def _edit(self, given: dict[str, Any]) -> str | None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(sys.stdin.fileno())
        try:
            return await asyncio.to_thread(edit_json, given)
        finally:
            loop.add_reader(sys.stdin.fileno(), self._readable)

    async def _send(self, text: str) -> None:
        message = MessageId(str(uuid.uuid4()))
        self._renderer.hidden.add(message)
        try:
            await self._api.session(self.session).send(text, message=message)
        except ClientError as error:
            self._printer.show([row((f"— not sent: {error.message}", "red"))])

    def _sigint(self, main: "asyncio.Task[Any] | None") -> None:
        """Queue the first Ctrl-C; a second one cancels the loop without waiting for the interrupt."""
        if self._interrupted and main is not None:
            self._left = True
            main.cancel()
        else:
            self._put(self._ctrl_c)

    def _leaving(self) -> Interrupted:
        return Interrupted(f"Left; the session continues. Return with: fairlead attach {self.session}")

    async def _ctrl_c(self) -> None:
        """Interrupt the turn; a second Ctrl-C does not wait for its end."""
        if self._mine is None and (self._turn is None or not self._options.chat):
            raise self._leaving()
        self._interrupted = True
        self._printer.fresh()
        hint("— interrupting; Ctrl-C again does not wait for the end of the turn")
        try:
            if self._mine is None or self._my_turn is not None or not await self._withdraw(self._mine):
                await self._api.session(self.session).interrupt()
        except ClientError as error:
            hint(f"— {error.message}")

    async def _withdraw(self, message: MessageId) -> bool:
        """Withdraw our message while it waits for another user's turn, which we must not interrupt.

        Return False if our turn has just begun."""
        try:
            await self._api.call("DELETE", f"/v1/sessions/{self.session}/queue/{message}", Reply)
        except Missing:
            return False
        return True
