"""Notices about a screen that only a person at the terminal can answer."""

from collections.abc import Awaitable, Callable

from fairlead.agents.claude.tui.screen import ScreenState
from fairlead.agents.claude.tui.stored_state import ShownNotice
from fairlead.agents.claude.wire.markers import TerminalMarker

Mark = Callable[[TerminalMarker, ShownNotice], Awaitable[None]]


class ScreenNotices:
    """`shown`: the last notice, also of an earlier gateway."""

    def __init__(self, mark: Mark, shown: ShownNotice | None) -> None:
        self._mark = mark
        self._shown = shown

    def seen(self, view: ScreenState) -> None:
        if view.state != "dialog":
            self._shown = None

    async def show(self, view: ScreenState) -> None:
        """Emit a notice once, even if the person moves between the choices of a dialog."""
        shown = ShownNotice(view.state, "".join(view.lines).replace("❯", "").split())
        if shown != self._shown:
            self._shown = shown
            kind, text = notice_text(view)
            await self._mark(TerminalMarker(what="shows", kind=kind, text=text, lines=view.lines), shown)


def notice_text(view: ScreenState) -> tuple[str, str]:
    """Return (kind, text) of the notice about a screen that blocks typing."""
    how = "Answer it in the terminal: fairlead terminal SESSION."
    if view.state == "typed":
        return "occupied", "The terminal's box contains a person's text: messages wait until it is sent or removed."
    kinds = {
        "trust": "Claude Code asks whether to trust this folder.",
        "api_key": "Claude Code asks whether to use the API key of the gateway's environment.",
        "sign_in": "Claude Code asks for its initial setup.",
    }
    return "dialog", f"{kinds.get(view.kind, 'The terminal shows a dialog that needs an answer.')} {how}"
