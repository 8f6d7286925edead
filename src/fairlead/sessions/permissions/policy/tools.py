"""The tools whose calls the policy understands, grouped by effect. For any other tool a person is asked."""


def names(words: str) -> frozenset[str]:
    """Return the set of the names in a text, separated by spaces."""
    return frozenset(words.split())


SHELL_TOOL = "Bash"
READ_TOOL = "Read"

# Reading tools and the argument with their path; a search without a path starts in the working folder.
READ_TOOLS = {READ_TOOL: "file_path", "NotebookRead": "notebook_path", "Glob": "path", "Grep": "path", "LS": "path"}
SEARCH_TOOLS = frozenset({"Glob", "Grep", "LS"})

EDIT_TOOLS = {"Write": "file_path", "Edit": "file_path", "MultiEdit": "file_path", "NotebookEdit": "notebook_path"}

PATH_TOOLS = {**READ_TOOLS, **EDIT_TOOLS}

# A rule for one of these covers all tools of its family.
FAMILIES = {"Edit": EDIT_TOOLS, "Read": READ_TOOLS}

FETCH_TOOL = "WebFetch"

# They touch only the agent's own lists, and processes that were allowed when they started. A subagent (Task) does
# nothing by itself: each of its calls gets its own verdict. A structured output is only the agent's final answer.
# Plan mode only restricts.
HARMLESS_TOOLS = names(
    "TodoWrite TodoRead BashOutput KillShell TaskOutput TaskStop TaskCreate TaskGet TaskList TaskUpdate ToolSearch "
    "Task StructuredOutput EnterPlanMode"
)

# A person answers these, whatever the mode and the rules allow.
QUESTION_TOOLS = frozenset({"AskUserQuestion", "ExitPlanMode"})

# The tools that mode `delegate` leaves to an agent: they delegate work and keep the lists of it.
COORDINATION_TOOLS = names(
    "Task SendMessage TeamCreate TeamDelete TodoWrite TodoRead TaskOutput TaskStop TaskCreate TaskGet TaskList "
    "TaskUpdate"
)

# The argument that a rule's content is compared with, for tools that run something by name.
NAMED_BY = {"Task": "subagent_type", "Skill": "skill"}

# Names of the same tool in other versions of the CLI.
_ALIASES = {"Agent": "Task", "KillBash": "KillShell", "AgentOutputTool": "TaskOutput", "AgentOutput": "TaskOutput"}

# Arguments that hold prose or file contents: a path in them is only mentioned, not opened.
PROSE = names(
    "content old_string new_string new_source edits prompt description todos plan query questions answers pattern"
)


def canonical(name: str) -> str:
    """Return the one name for a tool that has other names in some versions of the CLI."""
    return _ALIASES.get(name, name)
