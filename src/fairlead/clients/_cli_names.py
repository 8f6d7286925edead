"""Names of Claude Code that front ends of several protocols know. Pure."""

from typing import Final

from fairlead.model import events as ev

SUBAGENT_PREFIX: Final = "claude"
QUESTION_TOOL: Final = "AskUserQuestion"
PLAN_TOOL: Final = "ExitPlanMode"


def requesting_tool(event: ev.PermissionRequested | ev.QuestionAsked | ev.PlanProposed) -> str:
    """Return the tool of a request. Front ends know a question and a plan by these names, whatever the agent's are."""
    match event:
        case ev.QuestionAsked():
            return QUESTION_TOOL
        case ev.PlanProposed():
            return PLAN_TOOL
        case ev.PermissionRequested():
            return event.tool
