"""The tools whose calls the policy understands, by what they do. A name that stands nowhere here asks."""


def names(words: str) -> frozenset[str]:
    """A set of names, written as one text."""
    return frozenset(words.split())


SHELL_TOOL = "Bash"
READ_TOOL = "Read"

# Reading tools and the argument that is their path; a search without one looks in the working folder.
READ_TOOLS = {
    READ_TOOL: "file_path",
    "NotebookRead": "notebook_path",
    "Glob": "path",
    "Grep": "path",
    "LS": "path",
}
SEARCH_TOOLS = frozenset({"Glob", "Grep", "LS"})

EDIT_TOOLS = {
    "Write": "file_path",
    "Edit": "file_path",
    "MultiEdit": "file_path",
    "NotebookEdit": "notebook_path",
}

PATH_TOOLS = {**READ_TOOLS, **EDIT_TOOLS}

FETCH_TOOL = "WebFetch"

# They touch only the agent's own lists, and processes that were allowed when they began. A subagent (Task) does
# nothing by itself: each of its own calls is judged; a structured answer is the agent's last word; plan mode binds.
HARMLESS_TOOLS = names(
    "TodoWrite TodoRead BashOutput KillShell TaskOutput TaskStop TaskCreate TaskGet TaskList TaskUpdate ToolSearch "
    "Task StructuredOutput EnterPlanMode"
)

# A person answers these, whatever the mode and the rules allow.
QUESTION_TOOLS = frozenset({"AskUserQuestion", "ExitPlanMode"})

# What mode `delegate` leaves to an agent: to give work to others and to keep the lists of it.
COORDINATION_TOOLS = names(
    "Task SendMessage TeamCreate TeamDelete TodoWrite TodoRead TaskOutput TaskStop TaskCreate TaskGet TaskList "
    "TaskUpdate"
)

# The argument that a rule's content names, for tools that are chosen by a name.
NAMED_BY = {"Task": "subagent_type", "Skill": "skill"}

# The same tool under its other versions' names.
_ALIASES = {"Agent": "Task", "KillBash": "KillShell", "AgentOutputTool": "TaskOutput", "AgentOutput": "TaskOutput"}

# Arguments that hold prose or file contents: a path in them is talked about, not used.
PROSE = names(
    "content old_string new_string new_source edits prompt description todos plan query questions answers pattern"
)


def canonical(name: str) -> str:
    """One name for a tool that versions of the CLI call differently."""
    return _ALIASES.get(name, name)
