"""Rendering of a turn as its answer alone: the agent's last message, without tools, thinking and figures. Pure."""

from collections.abc import Iterator

from fairlead.cli.render import Flow, Piece, request_rows, row
from fairlead.cli.sanitize import clean, one_line
from fairlead.model import events as ev
from fairlead.model.ids import MessageId


class AnswerRenderer:
    """Prints the texts of the agent's last message when the turn of `message` ends. A request that a person at this
    terminal must answer is shown, too."""

    def __init__(self, message: MessageId) -> None:
        self.hidden = {message}
        self._mine = message
        self._turn: str | None = None
        self._of = ""
        self._texts: list[str] = []

    def step(self, event: ev.Event) -> Iterator[Piece]:
        match event:
            case ev.UserMessage() if event.message == self._mine:
                self._turn = event.turn
                self._texts.clear()
            case ev.Text() if event.subagent is None:
                if event.message != self._of:
                    self._of = event.message
                    self._texts.clear()
                self._texts.append(event.text)
            case ev.PermissionRequested() | ev.QuestionAsked() | ev.PlanProposed():
                yield from request_rows(event)
            case ev.TurnEnded() if self._turn is None or event.turn == self._turn:
                text = clean("\n\n".join(part for part in self._texts if part.strip()))
                if text:
                    yield row()
                    yield Flow(text if text.endswith("\n") else f"{text}\n")
            case _:
                pass


def outcome_text(event: ev.TurnEnded) -> str:
    """Why a turn did not complete, in one line."""
    why = event.reason or "; ".join(event.errors)
    return f"— {event.status}{': ' + one_line(why, 1000) if why else ''}"
