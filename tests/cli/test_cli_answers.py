"""The answers that a person types."""

from typing import Any

import msgspec
import pytest

from fairlead.cli.approval_prompt import Dialog, Edit, answers_from, chosen
from fairlead.cli.rules import accepting
from fairlead.clients.native.schemas import AnswerBody
from fairlead.model import events as ev
from fairlead.model.ids import CallId, EventId, RequestId

COLOURS: dict[str, Any] = {
    "question": "Which colour?",
    "header": "Colour",
    "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cool"}],
}
SIZES: dict[str, Any] = {
    "question": "Which sizes?",
    "header": "Size",
    "options": [{"label": "S"}, {"label": "L"}],
    "multiSelect": True,
}


def permission() -> ev.PermissionRequested:
    return ev.PermissionRequested(
        id=EventId("e"), request=RequestId("r"), call=CallId("c"), tool="Bash", input={"command": "ls"}
    )


def question(*questions: dict[str, Any]) -> ev.QuestionAsked:
    return ev.QuestionAsked(id=EventId("e"), request=RequestId("r"), call=CallId("c"), questions=questions)


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("y", AnswerBody(behavior="allow")),
        (" YES ", AnswerBody(behavior="allow")),
        ("n", AnswerBody(behavior="deny")),
        ("n use the other branch", AnswerBody(behavior="deny", message="use the other branch")),
        ("a", AnswerBody(behavior="allow", remember=("Bash(ls:*)",))),
        ("e", Edit({"command": "ls"})),
    ],
)
def test_a_permission_is_answered_with_one_word(typed: str, answer: AnswerBody | Edit) -> None:
    assert Dialog(permission(), ("Bash(ls:*)",)).typed(typed) == answer


@pytest.mark.parametrize("typed", ["", "maybe", "yess", "allow"])
def test_an_unknown_answer_allows_nothing(typed: str) -> None:
    dialog = Dialog(permission())
    assert dialog.typed(typed) is None
    assert dialog.prompt.startswith("Allow?")


def test_always_is_offered_only_with_a_rule() -> None:
    assert "lways" not in Dialog(permission()).prompt
    assert Dialog(permission()).typed("a") is None
    assert "Bash(ls:*)" in Dialog(permission(), ("Bash(ls:*)",)).prompt


def test_changed_input_is_allowed_and_invalid_input_is_asked_for_again() -> None:
    dialog = Dialog(permission())
    assert dialog.edited(None) is None
    assert "nothing was allowed" in dialog.problem
    same = msgspec.json.format(msgspec.json.encode(permission().input), indent=7).decode()
    assert dialog.edited(same) is None
    assert "nothing was allowed" in dialog.problem
    assert dialog.edited("[1]") is None
    assert "JSON" in dialog.problem
    assert dialog.edited('{"command":"pwd"}') == AnswerBody(behavior="allow", updated_input={"command": "pwd"})


def test_a_plan_is_approved_or_sent_back() -> None:
    plan = ev.PlanProposed(id=EventId("e"), request=RequestId("r"), call=CallId("c"), plan="1. x")
    assert Dialog(plan).typed("y") == AnswerBody(behavior="allow")
    assert Dialog(plan).typed("n smaller") == AnswerBody(behavior="deny", message="smaller")
    assert Dialog(plan).typed("e") is None
    assert "plan" in Dialog(plan).prompt


def test_questions_are_asked_one_after_the_other() -> None:
    dialog = Dialog(question(COLOURS, SIZES))
    assert dialog.prompt.startswith("Colour")
    assert dialog.typed("") is None
    assert dialog.typed("2") is None
    assert dialog.prompt.startswith("Size: numbers")
    answers = {"Which colour?": "Blue", "Which sizes?": "S, L"}
    assert dialog.typed("1, 2") == AnswerBody(behavior="allow", answers=answers)


def test_question_accepts_free_text_and_can_be_declined() -> None:
    assert chosen(COLOURS, "green, please") == "green, please"
    assert chosen(COLOURS, "3") == "3"
    declined = Dialog(question(COLOURS)).typed("-")
    assert isinstance(declined, AnswerBody)
    assert declined.behavior == "deny"


def test_answers_on_the_command_line_name_their_question() -> None:
    both = question(COLOURS, SIZES)
    assert answers_from(both, ["Colour=1", "2=S"]) == {"Which colour?": "Red", "Which sizes?": "S"}
    assert answers_from(question(COLOURS), ["Blue"]) == {"Which colour?": "Blue"}
    with pytest.raises(ValueError, match="does not name"):
        answers_from(both, ["Shape=round"])


def test_a_rule_accepts_no_request_that_does_not_say_exactly_what_runs() -> None:
    accepts = accepting(("Bash(ls:*)",))
    assert accepts(permission(), "/srv")
    assert not accepts(msgspec.structs.replace(permission(), certain=False), "/srv")
