"""The tools that several agents have under the same name: a rule for `Bash` holds for all of them. A table."""

from typing import Final

from fairlead.model.tools import EditArguments, Tool

QUESTION: Final = "AskUserQuestion"
PLAN: Final = "ExitPlanMode"
TODOS: Final = "TodoWrite"

REPLACEMENT: Final = {"old": "old_string", "new": "new_string", "everywhere": "replace_all"}

COMMON_TOOLS: Final = {
    "Bash": Tool(effect="shell", argument="command"),
    "Read": Tool(effect="read", argument="file_path"),
    "Glob": Tool(effect="search", argument="path", pattern="pattern"),
    "Grep": Tool(effect="search", argument="path"),
    "Write": Tool(effect="edit", argument="file_path", edit=EditArguments(whole="content")),
    "Edit": Tool(effect="edit", argument="file_path", edit=EditArguments(**REPLACEMENT)),
    "WebFetch": Tool(effect="fetch", argument="url"),
    QUESTION: Tool(effect="question"),
    PLAN: Tool(effect="question"),
    TODOS: Tool(effect="harmless", coordinates=True),
    # The agent's final answer.
    "StructuredOutput": Tool(effect="harmless"),
}
