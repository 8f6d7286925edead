"""The tools that start sessions and send messages, and the one that waits for an answer. Pure.

The core marks each message with the session that it came from, and rejects one that would go too deep.
"""

from typing import Annotated, Final

import msgspec

from fairlead.clients.mcp.tools import Arguments, McpTool, SessionArgument, ToolSteps, clip, one_line
from fairlead.model import commands as cmd
from fairlead.model import events as ev
from fairlead.model import queries as q
from fairlead.model.content import TextBlock
from fairlead.model.errors import BadRequest
from fairlead.model.ids import SessionId, session_id
from fairlead.model.web.requests import do
from fairlead.model.web.routes import Request

MOST_MESSAGE: Final = 100_000
MOST_ANSWER: Final = 20_000
LONGEST_WAIT_S: Final = 50
"""Less than the minute after which some clients give a call up."""
_LAST_EVENTS: Final = 100

Message = Annotated[
    str, msgspec.Meta(description="The message, as text.", min_length=1, max_length=MOST_MESSAGE, pattern=r"\S")
]


class StartArguments(Arguments, frozen=True, kw_only=True):
    message: Message
    folder: Annotated[
        str, msgspec.Meta(description="Absolute path of the folder to work in. Default: yours.", max_length=4096)
    ] = ""
    title: Annotated[str, msgspec.Meta(description="A short title for people.", max_length=200)] = ""
    agent: Annotated[str, msgspec.Meta(description="Name of the agent, if not the default one.", max_length=64)] = ""


class SendArguments(Arguments, frozen=True, kw_only=True):
    session: SessionArgument
    message: Message


class WaitArguments(Arguments, frozen=True, kw_only=True):
    session: SessionArgument
    seconds: Annotated[int, msgspec.Meta(description="Longest time to wait.", ge=1, le=LONGEST_WAIT_S)] = 30


def start_session(request: Request, given: StartArguments) -> ToolSteps:
    folder = given.folder
    if not folder and request.who.session:
        folder = (yield from do(q.GetSession(SessionId(request.who.session)))).summary.cwd
    # Without a title the session would be listed under the line that marks the message.
    title = given.title or one_line(given.message, 80)
    made = yield from do(cmd.Create(session=session_id(request.fresh), cwd=folder, title=title, agent=given.agent))
    yield from do(cmd.Send(session=made.session, content=(TextBlock(given.message),)))
    return f"Started session {made.session}. Use wait_for_turn to get its answer."


def send_message(request: Request, given: SendArguments) -> ToolSteps:
    session = session_id(given.session)
    yield from do(cmd.Send(session=session, content=(TextBlock(given.message),)))
    return f"Sent to session {session}: it starts a turn, after those that wait. Use wait_for_turn to get its answer."


def wait_for_turn(request: Request, given: WaitArguments) -> ToolSteps:
    session = session_id(given.session)
    if session == request.who.session:
        raise BadRequest("This is your own session, and its turn is yours: it cannot end while you wait.")
    state = yield from do(q.WaitTurn(session, given.seconds))
    if state == "working":
        return "The session still works. Call again to wait further."
    if state == "waiting":
        return "The session waits for a person, who has to answer a permission, a question or a plan. You cannot."
    page = yield from do(q.ReadMessages(session, None, _LAST_EVENTS))
    for line in reversed(page.events):
        event = ev.decode(bytes(line))
        if isinstance(event, ev.TurnEnded):
            reason = f" ({one_line(event.reason, 200)})" if event.reason and event.status != "completed" else ""
            answer = clip(event.text, MOST_ANSWER) or "(none)"
            return f"State of the last turn: {event.status}{reason}. Its answer:\n\n{answer}"
    return "The session has no finished turn."


SENDING_TOOLS: Final = (
    McpTool(
        name="start_session",
        title="Start a session",
        description="Start a new session of a coding agent with a first message. It is marked with the session that "
        "you run in. People decide about the permissions that it asks for.",
        arguments=StartArguments,
        run=start_session,
        reads=False,
    ),
    McpTool(
        name="send_message",
        title="Send a message",
        description="Send a message to another session; it starts a turn there when the session is free. It is marked "
        "with the session that you run in.",
        arguments=SendArguments,
        run=send_message,
        reads=False,
    ),
    McpTool(
        name="wait_for_turn",
        title="Wait for a turn",
        description="Wait until a session has finished its work or needs a person, and get the answer of its last "
        "turn. If it still works after the given seconds, the answer says so: call again.",
        arguments=WaitArguments,
        run=wait_for_turn,
    ),
)
