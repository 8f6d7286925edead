"""Decisions about a tool call in the forms that the log, the policy and an agent use."""

from fairlead.model.agents import Decision
from fairlead.model.events import PermissionResolved
from fairlead.model.ids import CallId, RequestId
from fairlead.model.policy import Behavior, Verdict


def decision_of(resolved: PermissionResolved) -> Decision:
    return Decision(
        behavior=resolved.behavior,
        message=resolved.message,
        updated_input=resolved.input if resolved.updated_input is None else resolved.updated_input,
        interrupt=resolved.interrupt,
        call=resolved.call,
    )


def verdict_of(resolved: PermissionResolved) -> Verdict:
    """The policy's verdict that was logged for a checked call."""
    by = "default" if resolved.how == "person" else resolved.how
    return Verdict(Behavior(resolved.behavior), resolved.message, resolved.rule or None, by)


def hook_request(call: CallId) -> RequestId:
    """The name under which the policy's verdict on a checked call is logged."""
    return RequestId(f"hook:{call}")
