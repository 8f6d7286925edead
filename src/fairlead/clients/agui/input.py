"""The body of a run: RunAgentInput of AG-UI 1.0, as far as the gateway uses it. Pure."""

from typing import Any, Final, Literal

import msgspec

from fairlead.model.content import Content, ImageBlock, TextBlock
from fairlead.model.errors import BadRequest
from fairlead.model.web.routes import read_json

MOST_TEXT: Final = 200
"""Maximum characters of an id."""
MOST_RESUMES: Final = 100


class ResumeEntry(msgspec.Struct, frozen=True):
    """The answer to one interrupt."""

    interrupt: str = msgspec.field(name="interruptId")
    status: Literal["resolved", "cancelled"]
    payload: Any = None


class ForwardedProps(msgspec.Struct, frozen=True):
    """`cwd`: the folder of a new session."""

    cwd: str = ""


class RunAgentInput(msgspec.Struct, frozen=True):
    """A run of a thread. `messages` is the client's whole history; only its new user messages are sent on."""

    thread: str = msgspec.field(name="threadId")
    run: str = msgspec.field(name="runId")
    messages: list[dict[str, Any]]
    state: Any = None
    tools: list[dict[str, Any]] = []
    forwarded: Any = msgspec.field(name="forwardedProps", default=None)
    resume: list[ResumeEntry] = []

    @property
    def cwd(self) -> str:
        """The folder of a new session: empty for the first root."""
        given = self.forwarded if isinstance(self.forwarded, dict) else {}
        try:
            return msgspec.convert(given, ForwardedProps).cwd
        except msgspec.ValidationError as error:
            raise BadRequest(f"forwardedProps does not fit: {error}.") from None

    @property
    def trailing(self) -> list[dict[str, Any]]:
        """The user messages at the end of the history."""
        found: list[dict[str, Any]] = []
        for message in reversed(self.messages):
            if message["role"] != "user":
                break
            found.insert(0, message)
        return found


def read_input(body: bytes) -> RunAgentInput:
    """Decode and check a body. BadRequest describes a fault."""
    given = read_json(body, RunAgentInput)
    names: list[tuple[str, Any]] = [("threadId", given.thread), ("runId", given.run)]
    names += [("interruptId", entry.interrupt) for entry in given.resume]
    for message in given.messages:
        if not isinstance(message.get("role"), str):
            raise BadRequest("Every message needs a role, a text.", field="messages")
        names.append(("id of a message", message.get("id", "")))
    for what, name in names:
        if not isinstance(name, str) or not 0 < len(name) <= MOST_TEXT:
            raise BadRequest(f"The {what} must be a text of 1 to {MOST_TEXT} characters.", field=what)
    if len(given.resume) > MOST_RESUMES:
        raise BadRequest(f"resume has at most {MOST_RESUMES} entries.", field="resume")
    return given


def content_of(message: dict[str, Any]) -> tuple[Content, ...]:
    """The content of a user message: a text, or parts of the types text and image."""
    given = message.get("content")
    if isinstance(given, str) and given:
        return (TextBlock(given),)
    if not isinstance(given, list) or not given:
        raise BadRequest("The content of a user message is a text, or a list of parts; it is not empty.")
    return tuple(_block(part) for part in given)


def _block(part: Any) -> Content:
    match part:
        case {"type": "text", "text": str(text)} if text:
            return TextBlock(text)
        case {"type": "image", "source": {"type": "data", "value": str(data), "mimeType": str(kind)}}:
            return ImageBlock({"type": "base64", "media_type": kind, "data": data})
        case {"type": "image", "source": {"type": "url", "value": str(address)}}:
            return ImageBlock({"type": "url", "url": address})
    raise BadRequest("A part of a user message has the type text or image, an image with the source data or url.")
