"""Parses git's output into the fields of the app's git panel. Pure."""

import re
from typing import Final

from fairlead.clients.claudecodeui.rest.project_fields import Fields

_COUNTED: Final = re.compile(r"\d+ files? changed.*")


def status_of(data: bytes) -> Fields:
    """Parse `status --porcelain=v2 --branch -z`. A renamed file is listed under its new name."""
    branch, committed = "", True
    found: dict[str, list[str]] = {"modified": [], "added": [], "deleted": [], "untracked": []}
    lines = iter(data.decode(errors="replace").split("\0"))
    for line in lines:
        if line.startswith("# branch.head "):
            branch = line.removeprefix("# branch.head ")
        elif line == "# branch.oid (initial)":
            committed = False
        elif line.startswith("? "):
            found["untracked"].append(line[2:])
        elif line.startswith(("1 ", "2 ", "u ")):
            kind, how, *_ = line.split(" ")
            name = line.split(" ", {"1": 8, "2": 9, "u": 10}[kind])[-1]
            if kind == "2":
                next(lines, None)  # its old name
            state = "added" if how[0] in "AC" else "deleted" if "D" in how else "modified"
            found[state].append(name)
    return {"branch": branch, "hasCommits": committed, **found}


def commits_of(data: bytes) -> list[Fields]:
    """Parse `log` with five fields, each followed by a NUL, and the change counts after them."""
    parts = data.decode(errors="replace").split("\0")
    commits: list[Fields] = []
    for place in range(0, len(parts) - 5, 5):
        name, author, email, date, message = parts[place : place + 5]
        counts, _, name = name.strip().rpartition("\n")
        if commits and (counted := _COUNTED.search(counts)):
            commits[-1]["stats"] = counted[0]
        commits.append({"hash": name, "author": author, "email": email, "date": date, "message": message, "stats": ""})
    if commits and (counted := _COUNTED.search(parts[-1])):
        commits[-1]["stats"] = counted[0]
    return commits


def branches_of(data: bytes) -> Fields:
    local: list[str] = []
    remote: list[str] = []
    for line in data.decode(errors="replace").splitlines():
        name = line.partition("\0")[0]
        if name.startswith("refs/heads/"):
            local.append(name.removeprefix("refs/heads/"))
        elif not name.endswith("/HEAD"):
            remote.append(name.removeprefix("refs/remotes/"))
    shorter = [name.partition("/")[2] for name in remote]
    every = [*local, *(name for name in dict.fromkeys(shorter) if name not in local)]
    return {"branches": every, "localBranches": local, "remoteBranches": remote}
