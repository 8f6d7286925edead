"""The configuration of a session that clients offer before the first prompt, and later. Pure."""

from collections.abc import Sequence
from typing import Any, Final

from fairlead.clients.ahp.context import MODE, MODEL, THINKING
from fairlead.clients.ahp.wire import INVALID_PARAMS, AhpError, Fields
from fairlead.model.policy import PermissionMode
from fairlead.model.queries import AgentView

AGENT: Final = "agent"

_LABELS: Final = {
    PermissionMode.DEFAULT: "Ask",
    PermissionMode.ACCEPT_EDITS: "Accept edits",
    PermissionMode.PLAN: "Plan",
    PermissionMode.BYPASS_PERMISSIONS: "Bypass permissions",
    PermissionMode.DELEGATE: "Delegate",
    PermissionMode.DONT_ASK: "Don't ask",
    PermissionMode.AUTO: "Auto",
}


def session_schema(modes: Sequence[str]) -> Fields:
    """The schema of an open session."""
    labels = [str(_LABELS.get(PermissionMode(mode), mode)) for mode in modes]
    about = {"type": "string", "title": "Permissions", "description": "Which tools run without a question."}
    choice = {"enum": list(modes), "enumLabels": labels, "default": PermissionMode.DEFAULT.value}
    model = {"type": "string", "title": "Model", "description": "Empty: the agent's own choice.", "default": ""}
    budget = {"type": "number", "title": "Thinking", "description": "Tokens; 0: the agent's choice.", "default": 0}
    properties: dict[str, Fields] = {MODE: {**about, **choice}, MODEL: model, THINKING: budget}
    return {"type": "object", "properties": {name: {**one, "sessionMutable": True} for name, one in properties.items()}}


def new_session_schema(modes: Sequence[str], agents: Sequence[AgentView]) -> Fields:
    """The schema of a session that is to be created: it has a choice of the agents, if there are several."""
    schema = session_schema(modes)
    names = [agent.name for agent in agents if not agent.problem]
    if len(names) > 1:
        about = {"type": "string", "title": "Agent", "description": "The agent that the session runs."}
        schema["properties"][AGENT] = {**about, "enum": names, "default": _default(agents, names)}
    return schema


def values_of(schema: Fields, given: Fields) -> Fields:
    """The value of each property: the given one if it is valid, else the default."""
    return {
        name: given[name] if _fits(given.get(name), about) else about["default"]
        for name, about in schema["properties"].items()
    }


def _fits(value: Any, about: Fields) -> bool:
    return value in about["enum"] if "enum" in about else type(value) is type(about["default"])


def text_value(config: Fields, name: str) -> str:
    """A value of a client's configuration; empty without one. Raises AhpError."""
    value: Any = config.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise AhpError(INVALID_PARAMS, f"{name} must be a text.")
    return value


def thinking_value(config: Fields) -> int | None:
    """The thinking budget of a client's configuration; None: the agent's choice. Raises AhpError."""
    value: Any = config.get(THINKING)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise AhpError(INVALID_PARAMS, f"{THINKING} must be a whole number.")
    return value or None


def _default(agents: Sequence[AgentView], names: list[str]) -> str:
    return next((agent.name for agent in agents if agent.default and agent.name in names), names[0])
