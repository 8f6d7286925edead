"""Events of a session as feed items: every kind of notice is one that a target may subscribe to."""

from typing import Any

import pytest

from fairlead.model import events as ev
from fairlead.model.ids import CallId, EventId, RequestId, SessionId
from fairlead.notifications import payloads
from fairlead.notifications.api.feed import KINDS, TOPICS, Change, FeedEntry, FeedNotice
from fairlead.notifications.from_events import NoticeBuilder
from fairlead.notifications.session_bridge import _REPORTED
from notifications.harness import ended

SESSION = SessionId("11111111-2222-3333-4444-555555555555")
ID: dict[str, Any] = {"id": EventId("e")}
ASKED: dict[str, Any] = {**ID, "request": RequestId("r"), "call": CallId("c")}
EVENTS: list[tuple[ev.Event, list[str]]] = [
    (ev.SessionChanged(title="t", **ID), ["conversation/edit", "session.changed"]),
    (ev.SessionChanged(archived=True, **ID), ["conversation/edit", "session.changed"]),
    (ev.SessionChanged(settings={}, **ID), ["session.changed"]),
    (ev.TurnStarted(**ID), ["session.working"]),
    (ended("completed"), ["turn.completed"]),
    (ended("failed"), ["turn.failed"]),
    (ended("cancelled"), ["turn.cancelled"]),
    (ev.PermissionRequested(tool="Bash", input={"command": "secret"}, **ASKED), ["permission.asked"]),
    (ev.QuestionAsked(questions=({"q": "secret"},), **ASKED), ["permission.asked"]),
    (ev.PlanProposed(plan="secret", **ASKED), ["permission.asked"]),
    (ev.PermissionResolved(tool="Bash", behavior="allow", how="person", **ASKED), ["permission.settled"]),
    (ev.PermissionResolved(tool="Bash", behavior="allow", how="rule", asked=False, **ASKED), []),
    (ev.PermissionCancelled(request=RequestId("r"), reason="secret", **ID), ["permission.settled"]),
    (ev.AgentExited(reason="secret", expected=False, **ID), ["session.agent_exited"]),
    (ev.AgentExited(reason="idle", expected=True, **ID), []),
    (ev.RecordStored(record="x", **ID), []),
]


def kinds(notices: object) -> list[str]:
    assert isinstance(notices, list | tuple)
    return [f"{one.resource}/{one.action}" if isinstance(one, Change) else one.kind for one in notices]


@pytest.mark.parametrize(("event", "wanted"), EVENTS)
def test_an_event_gives_the_expected_notices(event: ev.Event, wanted: list[str]) -> None:
    notices = NoticeBuilder(SESSION, "Work", ("ann",)).for_event(event)
    assert kinds(notices) == wanted
    for one in notices:
        if isinstance(one, FeedNotice):
            assert (one.session, one.name) == (SESSION, "Work")
            assert one.kind in KINDS and one.kind.split(".")[0] == one.topic and one.topic in TOPICS
            assert "secret" not in f"{one.title}{one.message}{one.meta}"


def test_every_event_that_gives_notices_is_in_the_reported_set() -> None:
    """Compares the set that is checked for every delta with the events that give notices."""
    assert {type(event) for event, wanted in EVENTS if wanted} == _REPORTED


def test_created_and_deleted_sessions_are_reported() -> None:
    builder = NoticeBuilder(SESSION, "", ("ann",))
    assert kinds(builder.for_session_change("created")) == ["conversation/create", "session.created"]
    assert kinds(builder.for_session_change("deleted")) == ["conversation/delete", "session.deleted"]
    assert builder.for_session_change("read") == ()
    assert [one.message for one in builder.for_session_change("created")][1] == "New: a session"


@pytest.mark.parametrize("name", ["my password is hunter2", 'a "quoted" hunter2', "session hunter2", "\0 hunter2"])
def test_no_text_of_a_prompt_is_sent_to_a_target(name: str) -> None:
    """A session without a title is named by its first prompt."""
    builder = NoticeBuilder(SESSION, name, ("ann",))
    notices = [*builder.for_session_change("created"), *builder.for_session_change("deleted")]
    for event, _ in EVENTS:
        notices += builder.for_event(event)
    notices.append(Change(resource="agent", action="fail", id="a", name="nightly", sentence="It failed at hunter2"))
    assert any("hunter2" in one.message for one in notices), "who sees the session is told its name"
    assert all(one.seen == ("ann",) for one in notices[:-1])
    for one in notices:
        entry = FeedEntry(1, 1, one)
        sent = [
            payloads.webhook("https://a.example", "s", entry, "feed", 1).body,
            payloads.ntfy("https://a.example/topic", "", entry, "feed", "").body,
            str(payloads.entry_json(entry, "feed")).encode(),
        ]
        for body in sent:
            assert b"hunter2" not in body and b"password" not in body
            assert not isinstance(one, FeedNotice) or b"a session" in body or b"Permission" in body
