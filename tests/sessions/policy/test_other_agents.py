"""The policy with the tools of another agent: rules, modes and the fence hold whatever its tools are called."""

from typing import Any

import msgspec
import pytest

from fairlead.model.policy import Behavior, PermissionMode
from fairlead.model.tools import EditArguments, Tool, ToolCatalogue
from fairlead.sessions.permissions.policy.call import PolicyContext, ToolCall
from fairlead.sessions.permissions.policy.decide import decide
from fairlead.sessions.permissions.policy.explain import file_change
from fairlead.sessions.permissions.policy.suggest import suggest
from sessions.policy.fake_folders import DATA, place

OTHER = ToolCatalogue(
    tools={
        "Bash": Tool(effect="shell", argument="line"),
        "Edit": Tool(effect="edit", argument="target", edit=EditArguments(old="before", new="after")),
        "Read": Tool(effect="read", argument="source"),
        "WebFetch": Tool(effect="fetch", argument="address"),
        "choose": Tool(effect="question"),
        "note": Tool(effect="harmless"),
    },
    aliases={"execute": "Bash", "replace": "Edit", "view": "Read", "download": "WebFetch"},
    prose=frozenset({"before", "after"}),
)


def other(**where: Any) -> PolicyContext:
    return msgspec.structs.replace(place(**where), tools=OTHER)


def behavior(tool: str, given: dict[str, Any], **where: Any) -> Behavior:
    return decide(ToolCall(tool, given), other(**where)).behavior


def test_rules_for_commands_hold() -> None:
    line = {"line": "git push origin main"}
    assert behavior("execute", line) is Behavior.ASK
    assert behavior("execute", line, allow=["Bash(git push:*)"]) is Behavior.ALLOW
    assert behavior("execute", line, allow=["Bash"], deny=["Bash(git push:*)"]) is Behavior.DENY


def test_rules_for_paths_hold_for_files_and_for_commands() -> None:
    inside, secret = "/srv/project/a.py", "/srv/project/secret/key"
    assert behavior("view", {"source": inside}) is Behavior.ALLOW
    assert behavior("view", {"source": secret}, deny=["Read(./secret/**)"]) is Behavior.DENY
    assert behavior("replace", {"target": inside}) is Behavior.ASK
    assert behavior("replace", {"target": inside}, mode=PermissionMode.ACCEPT_EDITS) is Behavior.ALLOW
    assert behavior("replace", {"target": inside}, mode=PermissionMode.PLAN) is Behavior.DENY
    denied = {"deny": ["Read(./secret/**)"], "allow": ["Bash(cat:*)"]}
    assert behavior("execute", {"line": f"cat {secret}"}, **denied) is Behavior.DENY


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("execute", {"line": f"cat {DATA}/token"}),
        ("view", {"source": f"{DATA}/token"}),
        ("replace", {"target": f"{DATA}/token"}),
        ("download", {"address": "http://localhost:8765/"}),
        ("unknown", {"anything": [f"{DATA}/token"]}),
    ],
)
def test_the_fence_holds_in_every_mode(tool: str, given: dict[str, Any]) -> None:
    for mode in PermissionMode:
        assert behavior(tool, given, mode=mode, allow=["Bash", "Read", "Edit", "WebFetch", "unknown"]) is Behavior.DENY


def test_what_is_not_known_asks() -> None:
    assert behavior("unknown", {}) is Behavior.ASK
    # The name that another agent has for a shell is only a name here.
    assert behavior("run", {"line": "ls"}, allow=["Bash"]) is Behavior.ASK
    assert behavior("execute", {"command": "ls"}, allow=["Bash(ls:*)"]) is Behavior.ASK
    assert behavior("choose", {}, mode=PermissionMode.BYPASS_PERMISSIONS) is Behavior.ASK
    assert behavior("note", {}) is Behavior.ALLOW


def test_suggested_rules_are_enough() -> None:
    call = ToolCall("replace", {"target": "/srv/project/src/a.py"})
    rules = tuple(suggest(call, other()))
    assert rules
    assert decide(call, msgspec.structs.replace(other(), rules=rules)).behavior is Behavior.ALLOW


def test_the_change_of_a_file_is_read_from_the_named_arguments() -> None:
    given = {"target": "a", "before": "one", "after": "two"}
    change = file_change(OTHER.find("replace"), given, "a", "one and one", outside=False)
    assert (change.before, change.after, change.whole) == ("one and one", "two and one", True)
