"""What the driver of a terminal stores with the records for the next gateway. Pure.

Each part is a line to recall (`model.store.OutputPosition`): it goes into the same append as the records that it
belongs to, so that a gateway that dies at any moment leaves a true state.
"""

from collections.abc import Iterable

import msgspec

from fairlead.agents.links.kept_output import KeptOutput
from fairlead.model.ids import RequestId
from fairlead.model.store import StoredOutput


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The CLI was reported as ready. `gateway`: the address at which its hooks look for the gateway. `up`: it has
    resumed its conversation, and takes prompts."""

    gateway: str
    up: bool = False


class TranscriptPlace(msgspec.Struct, frozen=True, tag="place"):
    """The transcript that is read, and the reader's place in it."""

    path: str
    place: bytes


class TypedText(msgspec.Struct, frozen=True, tag="typed"):
    """The beginning of the last text that was typed: an interrupt may put it back into the box, where it is ours."""

    text: str


class ShownNotice(msgspec.Struct, frozen=True, tag="shown"):
    """The last notice about the screen: what it is about, and the words on the screen."""

    state: str
    words: list[str]


class OpenHook(msgspec.Struct, frozen=True, tag="hook"):
    """A hook that is held for a permission request: the next gateway expects it back."""

    request: RequestId


class StoredState(msgspec.Struct, kw_only=True):
    ready: Ready | None = None
    place: TranscriptPlace | None = None
    shown: ShownNotice | None = None
    typed: TypedText | None = None
    hooks: list[OpenHook] = []


Part = Ready | TranscriptPlace | TypedText | ShownNotice

_decoder = msgspec.json.Decoder(Part | OpenHook)


def remember(output: KeptOutput | None, parts: Iterable[Part | None]) -> None:
    """Store these parts with the next records; each replaces the earlier one of its type."""
    for part in parts:
        if part is not None and output is not None:
            output.remember(str(part.__struct_config__.tag), msgspec.json.encode(part))


def decode(stored: StoredOutput | None) -> StoredState:
    state = StoredState()
    for line in stored.recall if stored is not None else ():
        match _decoder.decode(line):
            case Ready() as ready:
                state.ready = ready
            case TranscriptPlace() as place:
                state.place = place
            case TypedText() as typed:
                state.typed = typed
            case ShownNotice() as shown:
                state.shown = shown
            case OpenHook() as hook:
                state.hooks.append(hook)
    return state
