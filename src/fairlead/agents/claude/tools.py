"""What the policy knows about Claude Code: its tools, its control requests. Tables."""

from fairlead.model.tools import EditArguments, Tool, ToolCatalogue

RESERVED_CONTROLS = frozenset(
    {"initialize", "can_use_tool", "hook_callback", "mcp_set_servers", "mcp_message", "interrupt"}
    | {"set_permission_mode", "set_model", "set_max_thinking_tokens", "update_settings", "apply_flag_settings"}
)

OWN_FILES = frozenset({".claude", ".claude.json", ".mcp.json"})
"""The files and folders that configure Claude Code."""

_REPLACEMENT = {"old": "old_string", "new": "new_string", "everywhere": "replace_all"}

TOOLS = ToolCatalogue(
    tools={
        "Bash": Tool(effect="shell", argument="command"),
        "Read": Tool(effect="read", argument="file_path"),
        "NotebookRead": Tool(effect="read", argument="notebook_path"),
        "Glob": Tool(effect="search", argument="path", pattern="pattern"),
        "Grep": Tool(effect="search", argument="path"),
        "LS": Tool(effect="search", argument="path"),
        "Write": Tool(effect="edit", argument="file_path", edit=EditArguments(whole="content")),
        "Edit": Tool(effect="edit", argument="file_path", edit=EditArguments(**_REPLACEMENT)),
        "MultiEdit": Tool(effect="edit", argument="file_path", edit=EditArguments(several="edits", **_REPLACEMENT)),
        "NotebookEdit": Tool(effect="edit", argument="notebook_path", edit=EditArguments(new="new_source")),
        "WebFetch": Tool(effect="fetch", argument="url"),
        "WebSearch": Tool(effect="fetch"),
        "AskUserQuestion": Tool(effect="question"),
        "ExitPlanMode": Tool(effect="question"),
        "Skill": Tool(argument="skill"),
        # A subagent does nothing by itself: each of its calls gets its own verdict.
        "Task": Tool(effect="harmless", argument="subagent_type", coordinates=True),
    }
    | dict.fromkeys(("SendMessage", "TeamCreate", "TeamDelete"), Tool(coordinates=True))
    # The agent's own lists, and processes that were allowed when they started.
    | dict.fromkeys(
        ["TodoWrite", "TodoRead", "TaskOutput", "TaskStop", "TaskCreate", "TaskGet", "TaskList", "TaskUpdate"],
        Tool(effect="harmless", coordinates=True),
    )
    # A structured output is the agent's final answer; plan mode only restricts.
    | dict.fromkeys(
        ("BashOutput", "KillShell", "ToolSearch", "StructuredOutput", "EnterPlanMode"), Tool(effect="harmless")
    ),
    # Names in other versions of the CLI.
    aliases={"Agent": "Task", "KillBash": "KillShell", "AgentOutputTool": "TaskOutput", "AgentOutput": "TaskOutput"},
    prose=frozenset(
        {"content", "old_string", "new_string", "new_source", "edits", "prompt", "description", "todos", "plan"}
        | {"query", "questions", "answers", "pattern"}
    ),
)
