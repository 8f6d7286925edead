"""Types prompts into a terminal: only while the prompt is there, never over a person's text, until the CLI accepts it.

It waits for the effect of each step: the text in the box before Enter, the row in the transcript after it. If that does
not show in time, it raises `TypingFailed` with the reason, and removes the text that it typed.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from fairlead.agents.claude.tui import keys
from fairlead.agents.claude.tui.screen import ScreenState
from fairlead.agents.claude.versions import Version
from fairlead.model.formats.bounded_tables import keep_newest
from fairlead.system.clock import Clock, ends_within
from fairlead.terminals.api import Terminal

ECHO_SECONDS: Final = 10.0
"""How long typed text may take to show in the box."""
STEADY_SECONDS: Final = 0.15
"""The box shows the whole text when it has not changed for this long."""
TAKEN_SECONDS: Final = 3.0
"""After Enter the row comes within tenths of a second; a box that still has the text after this did not get the
Enter."""
ROW_SECONDS: Final = 30.0
"""How long the row may take once the box is empty: the user's own hooks may run before it, or reject the prompt."""
ENTERS: Final = 3
TYPINGS: Final = 3
PATIENCE_SECONDS: Final = 20.0
"""How long a person may leave text in the box, or a dialog open, before a notice about the wait is emitted."""
ERASING: Final = 40
WRITTEN: Final = 20
"""Prompts in the transcript that are remembered: a prompt that an earlier gateway typed may be among them."""
REPEAT_SECONDS: Final = 5.0
"""How long the row of a prompt may take that an earlier gateway may have entered, while the CLI rests at its prompt."""


class TypingFailed(Exception):
    """A prompt could not be typed. The message gives the reason, for people to read."""


class PromptTyper:
    """`shows` is called with each screen that blocks typing, once per screen."""

    def __init__(
        self, terminal: Terminal, clock: Clock, version: Version, shows: Callable[[ScreenState], Awaitable[None]]
    ) -> None:
        self._terminal = terminal
        self._clock = clock
        self._version = version
        self._shows = shows
        self._changed = asyncio.Event()
        self._taken = asyncio.Event()
        self._withdrawn = asyncio.Event()
        self._written: dict[str, None] = {}
        self.view = ScreenState("starting")
        self.text = ""
        """The text that was typed last; empty if none was."""
        self.typing = self.entered = False
        """Whether a prompt is being typed, and whether Enter was pressed for it."""

    # --- input ---------------------------------------------------------------------------------------------

    def seen(self, view: ScreenState) -> None:
        self.view = view
        self._changed.set()

    def written(self, text: str) -> None:
        """Note a prompt that the CLI wrote to its transcript."""
        keep_newest(self._written, text, None, WRITTEN)
        if self.text and keys.same(self.text, text):
            self._taken.set()
            self._changed.set()

    def withdraw(self) -> None:
        """Cancel a prompt that was not entered yet."""
        self._withdrawn.set()
        self._changed.set()

    # --- typing --------------------------------------------------------------------------------------------

    async def prompt(self, text: str) -> None:
        """Type a prompt and wait until the CLI has it. Raises TypingFailed, AgentNotRunning."""
        self.typing, self.entered = True, False
        self._withdrawn.clear()
        self._taken.clear()
        try:
            self.text = keys.clean(text)
            if not self.text.strip():
                raise TypingFailed("This message contains no text that can be typed.")
            for _ in range(TYPINGS):
                await self._until_free()
                for stroke in keys.strokes(keys.guarded(self.text, self._version)):
                    await self._terminal.write(stroke)
                await self._until_echoed()
                if await self._enter():
                    return
            raise TypingFailed("The text that was typed into the agent's terminal disappeared.")
        except TypingFailed:
            await self.erase()
            raise
        finally:
            self.typing = False

    async def repeat(self, text: str) -> None:
        """Type a prompt that an earlier gateway may have typed, unless the CLI has it. Raises as `prompt`."""
        self.text = keys.clean(text)
        self._taken.clear()
        for written in tuple(self._written):
            self.written(written)
        while not self._taken.is_set() and self._terminal.running:
            if self.view.state == "typed":
                await self.erase()  # whether Enter was pressed is not known: the box shows that it had no effect
                break
            if not await self._changes(REPEAT_SECONDS) and self.view.state == "prompt":
                break
        if not self._taken.is_set():
            await self.prompt(text)

    async def command(self, line: str) -> None:
        """Type one of the CLI's own commands, unguarded."""
        self.text = line
        await self.erase()  # an earlier gateway may have typed it
        await self._until_free()
        await self._terminal.write(line.encode())
        await self._until(lambda: keys.same(self.view.text, line), ECHO_SECONDS)
        await self._terminal.write(keys.ENTER)

    async def erase(self) -> None:
        """Remove our own text from the box; leave a person's text."""
        for _ in range(ERASING):
            if self.view.state != "typed" or not self._is_ours(self.view.text):
                return
            before = self.view
            for key in keys.ERASE:
                await self._terminal.write(key)
            await ends_within(self._clock, 1.0, self._until_other(before))

    def _is_ours(self, shown: str) -> bool:
        # Part of the text may be erased already, and a long paste is shown only as a placeholder.
        return bool(self.text) and (keys.begins(self.text, shown) or shown.startswith("[Pasted text"))

    async def _until_free(self) -> None:
        shown_view: ScreenState | None = None
        while self.view.state != "prompt":
            self._check()
            if await self._changes(PATIENCE_SECONDS if shown_view is None else ROW_SECONDS):
                continue
            if self.view.state in ("typed", "dialog", "starting") and self.view != shown_view:
                shown_view = self.view
                await self._shows(shown_view)

    async def _until_echoed(self) -> None:
        if not await self._until(lambda: bool(self.view.text) or self._taken.is_set(), ECHO_SECONDS):
            raise TypingFailed("The terminal did not show the typed text.")
        while not keys.same(self.view.text, self.text) and await self._changes(STEADY_SECONDS):
            pass

    async def _enter(self) -> bool:
        """Press Enter. False if the text has disappeared from the box without being entered."""
        for _ in range(ENTERS):
            if not await self._until_box():
                return self._taken.is_set()
            await self._terminal.write(keys.ENTER)
            self.entered = True
            if await self._until(
                lambda: self._taken.is_set() or self.view.state in ("prompt", "working"), TAKEN_SECONDS
            ):
                await self._until_row()
                return True
        raise TypingFailed("The agent did not accept the text that was typed into its terminal.")

    async def _until_box(self) -> bool:
        """Wait until our text is in the box: Enter must not go to a dialog, nor to a turn that began meanwhile, which
        would queue the text. False if the text is gone: a CLI that is still starting may draw an empty box over it."""
        while self.view.state != "typed":
            self._check()
            if self.view.state == "dialog":
                await self._shows(self.view)
            if not await self._changes(TAKEN_SECONDS) and self.view.state == "prompt":
                return False
            if self._taken.is_set():
                return False
        self._check()
        return True

    async def _until_row(self) -> None:
        """Wait for the row. While the CLI works, the prompt may be in its own queue; otherwise the row must come."""
        while not self._taken.is_set():
            self._check()
            if not await self._changes(ROW_SECONDS) and self.view.state != "working":
                raise TypingFailed("The agent did not store the text that was typed into its terminal.")

    def _check(self) -> None:
        if self._withdrawn.is_set() and not self.entered:
            raise TypingFailed("The message was interrupted before it was typed.")
        if not self._terminal.running:
            raise TypingFailed("The agent's terminal has ended.")

    # --- waiting -------------------------------------------------------------------------------------------

    async def _next(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    async def _changes(self, seconds: float) -> bool:
        return await ends_within(self._clock, seconds, self._next())

    async def _until(self, reached: Callable[[], bool], seconds: float) -> bool:
        async def wait() -> None:
            while not reached():
                self._check()
                await self._next()

        return await ends_within(self._clock, seconds, wait()) or reached()

    async def _until_other(self, view: ScreenState) -> None:
        while self.view == view and self._terminal.running:
            await self._next()
