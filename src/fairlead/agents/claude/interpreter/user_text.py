"""Classifies the text of a user record: written by a person, or by the CLI in the user's name."""

import re
from typing import Final, Literal

import msgspec

Kind = Literal["said", "interrupted", "task", "output", "command", "noise"]

_OUTPUT: Final = re.compile(
    r"<local-command-(?:stdout|stderr)>(.*?)(?:</local-command-(?:stdout|stderr)>|\Z)", re.DOTALL
)
_SHELL: Final = re.compile(r"<bash-(?:stdout|stderr)>(.*?)(?:</bash-(?:stdout|stderr)>|\Z)", re.DOTALL)
_COMMAND: Final = re.compile(r"<command-name>(.*?)</command-name>", re.DOTALL)
_ARGUMENTS: Final = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)

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
    if start.startswith("<local-command-std"):
        return ClassifiedText("output", "\n".join(part.strip() for part in _OUTPUT.findall(text)).strip())
    if start.startswith("<bash-std"):
        return ClassifiedText("output", "\n".join(part.strip() for part in _SHELL.findall(text) if part.strip()))
    if start.startswith("<bash-input>"):
        return ClassifiedText("command", f"! {tag(text, 'bash-input')}")
    if start.startswith(("<command-name>", "<command-message>")):
        name, arguments = _COMMAND.search(text), _ARGUMENTS.search(text)
        words = (name[1] if name else "", arguments[1] if arguments else "")
        return ClassifiedText("command", " ".join(word.strip() for word in words if word.strip()))
    if start.startswith(_NOISE):
        return ClassifiedText("noise")
    return ClassifiedText("said", text)


def tag(text: str, name: str) -> str:
    """The content of the `<name>` element in a task notification."""
    found = re.search(rf"<{name}>(.*?)</{name}>", text, re.DOTALL)
    return found[1].strip() if found else ""
