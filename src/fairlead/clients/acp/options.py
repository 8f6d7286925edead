"""Permission modes and configuration options of a session, as editors choose them. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from fairlead.clients.acp.wire import INVALID_PARAMS, BadMessage, Fields
from fairlead.model import commands as cmd
from fairlead.model.ids import SessionId

DEFAULT: Final = "default"
_MODES: Final = {
    "default": ("Ask", "Asks before it changes something"),
    "acceptEdits": ("Accept edits", "Changes files in the session's folder without asking"),
    "plan": ("Plan", "Reads and plans; changes nothing"),
    "dontAsk": ("Don't ask", "Denies what no rule allows"),
    "bypassPermissions": ("Bypass permissions", "Asks nothing"),
}
"""The modes that are offered, if the gateway's settings allow them, with name and description."""
_THINKING: Final = {"off": 0, "low": 4_000, "medium": 10_000, "high": 32_000}
"""Levels of thinking as token budgets; the default is the agent's own."""


class OfferedOptions(msgspec.Struct, frozen=True):
    """What an editor may choose in a session: modes and models by name, and whether its agent has a thinking budget."""

    modes: tuple[str, ...] = (DEFAULT,)
    models: tuple[str, ...] = ()
    thinking: bool = False


class CurrentOptions(msgspec.Struct, frozen=True):
    """The values that a session has now."""

    mode: str = DEFAULT
    model: str = ""
    thinking: int | None = None


def current_options(settings: Mapping[str, Any]) -> CurrentOptions:
    """The values in a session's stored settings."""
    stored = msgspec.convert(settings, cmd.Settings)
    return CurrentOptions(stored.mode or DEFAULT, stored.model, stored.thinking)


def offered_modes(allowed: Iterable[str], cannot: Iterable[str]) -> tuple[str, ...]:
    """The modes to offer: of those that the gateway allows, without planning if the agent cannot plan."""
    missing = {"plan"} & {*cannot}
    return tuple(mode for mode in _MODES if mode in {*allowed} - missing)


def mode_state(choices: OfferedOptions, now: CurrentOptions) -> Fields:
    """The modes in the form for clients that do not know configuration options."""
    modes = [{"id": mode, "name": name, "description": about} for mode, name, about in _modes(choices, now)]
    return {"currentModeId": now.mode, "availableModes": modes}


def config_options(choices: OfferedOptions, now: CurrentOptions) -> list[Fields]:
    modes = [{"value": mode, "name": name, "description": about} for mode, name, about in _modes(choices, now)]
    names = dict.fromkeys((*choices.models, *filter(None, [now.model])))
    models = [{"value": DEFAULT, "name": "Default"}, *({"value": name, "name": name} for name in names)]
    options = [
        _select("mode", "Mode", "mode", now.mode, modes),
        _select("model", "Model", "model", now.model or DEFAULT, models),
    ]
    if choices.thinking:
        levels = dict.fromkeys((DEFAULT, *_THINKING, _level(now.thinking)))
        named = [{"value": level, "name": level.capitalize()} for level in levels]
        options.append(_select("thought_level", "Thinking", "thought_level", _level(now.thinking), named))
    return options


def option_command(session: SessionId, option: str, value: str) -> cmd.Command:
    """The command that sets an option. Raises BadMessage for an unknown option or level."""
    match option:
        case "mode":
            return cmd.SetMode(session=session, mode=value)
        case "model":
            return cmd.SetModel(session=session, model="" if value == DEFAULT else value)
        case "thought_level" if value == DEFAULT or value in _THINKING:
            return cmd.SetThinking(session=session, budget=_THINKING.get(value))
        case "thought_level":
            raise BadMessage(INVALID_PARAMS, f"A level of thinking is one of {DEFAULT}, {', '.join(_THINKING)}.")
        case _:
            raise BadMessage(INVALID_PARAMS, f"There is no option {option[:40]!r}.")


def _modes(choices: OfferedOptions, now: CurrentOptions) -> list[tuple[str, str, str]]:
    """The modes to choose from, and the current one, which another client may have set."""
    names = dict.fromkeys((*choices.modes, now.mode))
    return [(name, *_MODES.get(name, (name, ""))) for name in names]


def _level(budget: int | None) -> str:
    if budget is None:
        return DEFAULT
    return next((level for level, tokens in _THINKING.items() if tokens == budget), f"{budget} tokens")


def _select(id: str, name: str, category: str, now: str, options: list[Fields]) -> Fields:
    return {"id": id, "name": name, "category": category, "type": "select", "currentValue": now, "options": options}
