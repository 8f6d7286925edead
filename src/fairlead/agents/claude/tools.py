"""What the policy knows about Claude Code: its tools, its control requests. Tables."""

from fairlead.agents.common_tools import COMMON_TOOLS, REPLACEMENT
from fairlead.model.tools import EditArguments, Tool, ToolCatalogue

RESERVED_CONTROLS = frozenset(
    {"initialize", "can_use_tool", "hook_callback", "mcp_set_servers", "mcp_message", "interrupt"}
    | {"set_permission_mode", "set_model", "set_max_thinking_tokens", "update_settings", "apply_flag_settings"}
)

OWN_FILES = frozenset({".claude", ".claude.json", ".mcp.json"})
"""The files and folders that configure Claude Code."""

TOOLS = ToolCatalogue(
    tools={
        **COMMON_TOOLS,
        "NotebookRead": Tool(effect="read", argument="notebook_path"),
        "LS": Tool(effect="search", argument="path"),
        "MultiEdit": Tool(effect="edit", argument="file_path", edit=EditArguments(several="edits", **REPLACEMENT)),
        "NotebookEdit": Tool(effect="edit", argument="notebook_path", edit=EditArguments(new="new_source")),
        "WebSearch": Tool(effect="fetch"),
        "Skill": Tool(argument="skill"),
        # A subagent does nothing by itself: each of its calls gets its own verdict.
        "Task": Tool(effect="harmless", argument="subagent_type", coordinates=True),
    }
    | dict.fromkeys(("SendMessage", "TeamCreate", "TeamDelete"), Tool(coordinates=True))
    # The agent's own lists, and processes that were allowed when they started.
    | dict.fromkeys(
        ["TodoRead", "TaskOutput", "TaskStop", "TaskCreate", "TaskGet", "TaskList", "TaskUpdate"],
        Tool(effect="harmless", coordinates=True),
    )
    # Plan mode only restricts.
    | dict.fromkeys(("BashOutput", "KillShell", "ToolSearch", "EnterPlanMode"), Tool(effect="harmless")),
    # Names in other versions of the CLI.
    aliases={"Agent": "Task", "KillBash": "KillShell", "AgentOutputTool": "TaskOutput", "AgentOutput": "TaskOutput"},
    prose=frozenset(
        {"content", "old_string", "new_string", "new_source", "edits", "prompt", "description", "todos", "plan"}
        | {"query", "questions", "answers", "pattern"}
    ),
)
