"""Descriptions of rules for the person who is about to save one. Pure.

The texts must agree with the matching in `rules` and `rule_matching`.
"""

from fairlead.model.policy import Rule
from fairlead.sessions.permissions.policy import tools
from fairlead.sessions.permissions.policy.call import PolicyContext
from fairlead.sessions.permissions.policy.paths import BadPath, absolute, tidy
from fairlead.sessions.permissions.shell.rule_matching import ANYTHING, shell_pattern


def covers(rule: Rule, context: PolicyContext) -> str:
    """Describe the calls that an allow rule covers."""
    tool = tools.canonical(rule.tool)
    if tool == tools.SHELL_TOOL:
        return _commands(rule.content)
    if tool in tools.PATH_TOOLS:
        return f"{_doing(tool)} {_places(rule.content, context)}"
    if rule.content is None:
        return _every(tool)
    if tool == tools.FETCH_TOOL and rule.content.startswith("domain:"):
        domain = rule.content.removeprefix("domain:")
        below = domain.startswith("*.")
        return f"Fetching any page of {'names below ' + domain[2:] if below else domain}"
    if tool in tools.NAMED_BY:
        return f"Every call of {tool} that is for {rule.content}"
    return f"Nothing: what {rule.content} means to {tool} is not known here"


def _commands(content: str | None) -> str:
    if content is None or content == ANYTHING:
        return "Every shell command, whatever it does"
    pattern = shell_pattern(content)
    if pattern.prefix:
        return f"Every command that begins with the words “{content.removesuffix(':*')}”, whatever follows them"
    if any(word.open_end for word in pattern.words):
        return f"Every command of the form “{content}”, where * is the rest of a word"
    return f"The command “{content}”, exactly as it is"


def _doing(tool: str) -> str:
    families = {"Edit": "Changing, by any editing tool,", "Read": "Reading, by any reading tool,"}
    return families.get(tool) or f"{'Changing' if tool in tools.EDIT_TOOLS else 'Reading'} by {tool}"


def _places(content: str | None, context: PolicyContext) -> str:
    if content is None:
        return "every file anywhere"
    try:
        path = tidy(absolute(content, context.cwd, context.home))
    except BadPath:
        return "nothing: this path leads nowhere"
    if path.endswith("/**"):
        return f"everything below {path.removesuffix('/**')}"
    return f"every file that matches {path}" if "*" in path or "?" in path else path


def _every(tool: str) -> str:
    if tool.startswith("mcp__"):
        server, one_tool, name = tool.removesuffix("__*").removeprefix("mcp__").partition("__")
        every = f"call of {name}, a tool" if one_tool else "tool"
        return f"Every {every} of the MCP server {server}"
    return f"Every call of {tool}, whatever it is given"
