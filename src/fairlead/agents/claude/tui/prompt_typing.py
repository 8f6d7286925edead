"""Types prompts into a terminal: only while the prompt is there, never over a person's words, until it is taken.

It waits for what it does to show: the text in the box before Enter, the row in the transcript after it. What does not
show within bounds is a failure that says so; what was typed of it is removed again.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

from fairlead.agents.claude.tui import keys
from fairlead.agents.claude.tui.screen import ScreenState
from fairlead.agents.claude.versions import Version
from fairlead.system.clock import Clock, within
from fairlead.terminals.api import Terminal

ECHO_SECONDS: Final = 10.0
"""Within so long what was typed must show in the box."""
STEADY_SECONDS: Final = 0.15
"""The box shows all of it when it does not change for so long."""
TAKEN_SECONDS: Final = 3.0
"""After Enter the row comes within tenths of a second; a box that still has the text then did not hear the Enter."""
ROW_SECONDS: Final = 30.0
"""With the box empty again the row must come: hooks of the user's own may run before it, or refuse the prompt."""
ENTERS: Final = 3
TYPINGS: Final = 3
PATIENCE_SECONDS: Final = 20.0
"""How long a person may leave their words in the box, or a dialog open, before others are told what is waited for."""
ERASING: Final = 40


class TypingFailed(Exception):
    """Says why, to a person."""


class PromptTyper:
    """`shows` is told what stands in the way, once for each thing."""

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
        self.view = ScreenState("starting")
        self.text = ""
        """What was typed last; empty when nothing was."""
        self.typing = self.entered = False
        """Whether a prompt is on its way, and whether Enter was pressed for it."""

    # --- what it is told -----------------------------------------------------------------------------------

    def seen(self, view: ScreenState) -> None:
        self.view = view
        self._stir()

    def written(self, text: str) -> None:
        """The CLI has taken up a prompt."""
        if self.text and keys.same(self.text, text):
            self._taken.set()
            self._stir()

    def withdraw(self) -> None:
        """What is not typed yet shall not be."""
        self._withdrawn.set()
        self._stir()

    def _stir(self) -> None:
        self._changed.set()

    # --- what it does --------------------------------------------------------------------------------------

    async def prompt(self, text: str) -> None:
        """Until the CLI has it. NotTyped, AgentGone."""
        self.typing, self.entered = True, False
        self._withdrawn.clear()
        self._taken.clear()
        try:
            self.text = keys.clean(text)
            if not self.text.strip():
                raise TypingFailed("There is nothing in this message that can be typed.")
            for _ in range(TYPINGS):
                await self._until_free()
                for stroke in keys.strokes(keys.guarded(self.text, self._version)):
                    await self._terminal.write(stroke)
                await self._until_echoed()
                if await self._enter():
                    return
            raise TypingFailed("What was typed into the agent's terminal did not stay there.")
        except TypingFailed:
            await self.erase()
            raise
        finally:
            self.typing = False

    async def command(self, line: str) -> None:
        """A command of the CLI's own, which we mean as one."""
        await self._until_free()
        await self._terminal.write(line.encode())
        await self._until(lambda: keys.same(self.view.text, line), ECHO_SECONDS)
        await self._terminal.write(keys.ENTER)

    async def erase(self) -> None:
        """Our own words leave the box; a person's stay."""
        for _ in range(ERASING):
            if self.view.state != "typed" or not self._is_ours(self.view.text):
                return
            before = self.view
            for key in keys.ERASE:
                await self._terminal.write(key)
            with contextlib.suppress(TimeoutError):
                await within(self._clock, 1.0, self._until_other(before))

    def _is_ours(self, shown: str) -> bool:
        # Some of it may be erased already, and a long paste is shown as a mark alone.
        return bool(self.text) and (keys.begins(self.text, shown) or shown.startswith("[Pasted text"))

    async def _until_free(self) -> None:
        told: ScreenState | None = None
        while self.view.state != "prompt":
            self._check()
            try:
                await within(self._clock, PATIENCE_SECONDS if told is None else ROW_SECONDS, self._next())
            except TimeoutError:
                if self.view.state in ("typed", "dialog", "starting") and self.view != told:
                    told = self.view
                    await self._shows(told)

    async def _until_echoed(self) -> None:
        if not await self._until(lambda: bool(self.view.text) or self._taken.is_set(), ECHO_SECONDS):
            raise TypingFailed("The terminal did not show what was typed into it.")
        while not keys.same(self.view.text, self.text):
            try:
                await within(self._clock, STEADY_SECONDS, self._next())
            except TimeoutError:
                return

    async def _enter(self) -> bool:
        """False: what was typed is gone from the box, and nobody has entered it."""
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
        raise TypingFailed("The agent did not take what was typed into its terminal.")

    async def _until_box(self) -> bool:
        """Enter goes to our words in the box alone: not to a dialog, nor to work that began meanwhile, which would
        queue it. False if they are gone: a CLI that still starts may draw an empty box over them."""
        while self.view.state != "typed":
            self._check()
            if self.view.state == "dialog":
                await self._shows(self.view)
            try:
                await within(self._clock, TAKEN_SECONDS, self._next())
            except TimeoutError:
                if self.view.state == "prompt":
                    return False
            if self._taken.is_set():
                return False
        self._check()
        return True

    async def _until_row(self) -> None:
        """While it works, the prompt may wait in the CLI's own queue; back at its prompt, the row must come."""
        while not self._taken.is_set():
            self._check()
            try:
                await within(self._clock, ROW_SECONDS, self._next())
            except TimeoutError:
                if self.view.state != "working":
                    raise TypingFailed("The agent did not write down what was typed into its terminal.") from None

    def _check(self) -> None:
        if self._withdrawn.is_set() and not self.entered:
            raise TypingFailed("It was interrupted before it was typed.")
        if not self._terminal.running:
            raise TypingFailed("The agent's terminal has ended.")

    # --- waiting -------------------------------------------------------------------------------------------

    async def _next(self) -> None:
        """Something has changed."""
        self._changed.clear()
        await self._changed.wait()

    async def _until(self, reached: Callable[[], bool], seconds: float) -> bool:
        async def wait() -> None:
            while not reached():
                self._check()
                await self._next()

        try:
            await within(self._clock, seconds, wait())
        except TimeoutError:
            return reached()
        return True

    async def _until_other(self, view: ScreenState) -> None:
        while self.view == view and self._terminal.running:
            await self._next()


def words(view: ScreenState) -> tuple[str, str]:
    """(kind, text) of the notice about what stands in the way."""
    how = "Answer it in the terminal: fairlead terminal SESSION."
    if view.state == "typed":
        return "occupied", "Somebody's words are in the terminal's box: a message waits until they are sent or removed."
    kinds = {
        "trust": "Claude Code asks whether this folder is to be trusted.",
        "api_key": "Claude Code asks whether to use the API key of the gateway's environment.",
        "sign_in": "Claude Code wants to be set up.",
    }
    return "dialog", f"{kinds.get(view.kind, 'The terminal shows something that wants an answer.')} {how}"
