"""Dialog for a person's answer to an agent's request. Pure: typed lines in, the next prompt or the answer out."""

from typing import Any, Final

import msgspec

from fairlead.cli.render import options
from fairlead.cli.sanitize import visible
from fairlead.clients.native.schemas import AnswerBody
from fairlead.model import events as ev

Asked = ev.PermissionRequested | ev.QuestionAsked | ev.PlanProposed

UNCHANGED: Final = "The input was not changed, so nothing was allowed."
DECLINE: Final = "-"
"""Typed to decline a question."""


class Edit(msgspec.Struct, frozen=True):
    """The person wants to change the input: show it in an editor, then call `edited`."""

    input: dict[str, Any]


class Dialog:
    """The dialog about one request. Show `prompt`, and pass lines to `typed` until it returns an answer or an `Edit`.

    `always` are the rules that an "always" would remember."""

    def __init__(self, event: Asked, always: tuple[str, ...] = ()) -> None:
        self.event = event
        self.always = always
        self.problem = ""
        self._answers: dict[str, Any] = {}

    @property
    def prompt(self) -> str:
        match self.event:
            case ev.PermissionRequested():
                always = f", [a]lways {visible(', '.join(self.always))}" if self.always else ""
                return f"Allow? [y]es, [n]o (n REASON){always}, [e]dit the input: "
            case ev.PlanProposed():
                return "Approve the plan? [y]es, [n]o (n WHAT TO CHANGE): "
            case ev.QuestionAsked():
                many = "numbers with commas" if self._question.get("multiSelect") else "a number"
                return f"{visible(str(self._question.get('header') or 'Answer'))}: {many}, or your own words: "

    def typed(self, line: str) -> AnswerBody | Edit | None:
        """Handle a typed line. None: not an answer yet; show `problem`, then `prompt` again."""
        self.problem = ""
        text = line.strip()
        if isinstance(self.event, ev.QuestionAsked):
            return self._answered(text)
        word, _, rest = text.partition(" ")
        match word.lower():
            case "y" | "yes":
                return AnswerBody(behavior="allow")
            case "n" | "no":
                return AnswerBody(behavior="deny", message=rest.strip())
            case "a" | "always" if isinstance(self.event, ev.PermissionRequested) and self.always:
                return AnswerBody(behavior="allow", remember=self.always)
            case "e" | "edit" if isinstance(self.event, ev.PermissionRequested):
                return Edit(self.event.input)
        self.problem = "Please type y or n." if text else ""
        return None

    def edited(self, text: str | None) -> AnswerBody | None:
        """Handle the result of the editor: JSON, or None if it was not changed and saved, which allows nothing."""
        try:
            changed = None if text is None else msgspec.json.decode(text, type=dict[str, Any])
        except msgspec.DecodeError as error:
            self.problem = f"That is not a JSON object: {error}"
            return None
        if changed is None or (isinstance(self.event, ev.PermissionRequested) and changed == self.event.input):
            self.problem = UNCHANGED
            return None
        return AnswerBody(behavior="allow", updated_input=changed)

    # --- questions -----------------------------------------------------------------------------------------

    @property
    def _question(self) -> dict[str, Any]:
        assert isinstance(self.event, ev.QuestionAsked)
        open_ones = (q for q in self.event.questions if _key(q) not in self._answers)
        return next(open_ones, {})

    def _answered(self, text: str) -> AnswerBody | None:
        assert isinstance(self.event, ev.QuestionAsked)
        if text == DECLINE:
            return AnswerBody(behavior="deny", message="The person declined to answer.")
        if not text:
            self.problem = f"Type {DECLINE} to decline."
            return None
        self._answers[_key(self._question)] = chosen(self._question, text)
        if self._question:
            return None
        return AnswerBody(behavior="allow", answers=self._answers)


def _key(question: dict[str, Any]) -> str:
    return str(question.get("question", ""))


def chosen(question: dict[str, Any], text: str) -> str:
    """Replace numbers by the labels of their options; any other text is the answer itself."""
    labels = [label for label, _ in options(question)]
    picks = [pick.strip() for pick in text.split(",")]
    if all(pick.isdecimal() and 1 <= int(pick) <= len(labels) for pick in picks):
        return ", ".join(labels[int(pick) - 1] for pick in picks)
    return text


def answers_from(event: ev.QuestionAsked, given: list[str]) -> dict[str, Any]:
    """Parse `QUESTION=ANSWER` of the command line; the question is given by number, header or text.

    Raises ValueError for an item that does not name one of the questions."""
    answers: dict[str, Any] = {}
    for item in given:
        name, equals, text = item.partition("=")
        if not equals and len(event.questions) == 1:
            name, text = "1", item
        found = [
            question
            for number, question in enumerate(event.questions, start=1)
            if name.strip() in (str(number), str(question.get("header", "")), _key(question))
        ]
        if len(found) != 1:
            known = ", ".join(f"{n} ({q.get('header') or _key(q)})" for n, q in enumerate(event.questions, start=1))
            raise ValueError(f"--answer {item!r} does not name one of the questions: {known}")
        answers[_key(found[0])] = chosen(found[0], text.strip())
    return answers
