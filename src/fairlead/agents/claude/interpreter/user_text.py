"""Classifies the text of a user record: written by a person, or by the CLI in the user's name."""

import re
from typing import Final, Literal

import msgspec

Kind = Literal["prompt", "interrupted", "task", "output", "command", "noise"]

_OUTPUT: Final = re.compile(r"<(local-command|bash)-(?:stdout|stderr)>(.*?)(?:</\1-(?:stdout|stderr)>|\Z)", re.DOTALL)

TOOL_LOADED: Final = "Tool loaded."
"""Comes with the result of a search for tools."""
INTERRUPTED: Final = "[Request interrupted"
_TASK: Final = "<task-notification>"
_NOISE: Final = ("<local-command-caveat>", "<system-reminder>", "<ide_")


class ClassifiedText(msgspec.Struct, frozen=True):
    kind: Kind
    text: str = ""


def classify(text: str) -> ClassifiedText:
    """Classify a text. The `text` of the return value is the part to show to a person."""
    start = text.lstrip()
    if start.startswith(INTERRUPTED):
        return ClassifiedText("interrupted")
    if start.startswith(_TASK):
        return ClassifiedText("task", text)
    if start.startswith(("<local-command-std", "<bash-std")):
        return ClassifiedText("output", "\n".join(part.strip() for _, part in _OUTPUT.findall(text) if part.strip()))
    if start.startswith("<bash-input>"):
        return ClassifiedText("command", f"! {tag(text, 'bash-input')}")
    if start.startswith(("<command-name>", "<command-message>")):
        words = tag(text, "command-name"), tag(text, "command-args")
        return ClassifiedText("command", " ".join(filter(None, words)))
    if start.startswith(_NOISE):
        return ClassifiedText("noise")
    return ClassifiedText("prompt", text)


def tag(text: str, name: str) -> str:
    """The content of the first `<name>` element, stripped."""
    found = re.search(rf"<{name}>(.*?)</{name}>", text, re.DOTALL)
    return found[1].strip() if found else ""
