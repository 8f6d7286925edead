"""Threads of a conversation by uuid and parentUuid, and whether it is working. Pure: takes rows as decoded JSON.

The tree's rules: a row without a uuid is not a node; a row without a parent, or whose parent is missing, is a root; a
compaction boundary (it has no parent) is a child of its logicalParentUuid; of two rows with one uuid the first counts;
siblings have the order of the rows, so a fork is a second child of the row where it starts. Parents may come after
their children. Rows that name each other as parents do not form a cycle here: the first of them is a root.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

Fields = Mapping[str, Any]


class ThreadNode(msgspec.Struct, eq=False):
    """One row in the tree."""

    row: Fields
    children: list["ThreadNode"] = []

    @property
    def uuid(self) -> str:
        return str(self.row["uuid"])


def tree(rows: Iterable[Fields]) -> list[ThreadNode]:
    """The roots, each with its descendants."""
    nodes: dict[str, ThreadNode] = {}
    for row in rows:
        uuid = row.get("uuid")
        if isinstance(uuid, str) and uuid:
            nodes.setdefault(uuid, ThreadNode(row))
    parents = {uuid: parent for uuid, node in nodes.items() if (parent := parent_of(node.row)) in nodes}
    for uuid in _closing_circles(parents):
        del parents[uuid]
    roots = []
    for uuid, node in nodes.items():
        if uuid in parents:
            nodes[parents[uuid]].children.append(node)
        else:
            roots.append(node)
    return roots


def parent_of(row: Fields) -> str:
    """The uuid of the previous row in its thread; empty for the first."""
    for name in ("parentUuid", "logicalParentUuid"):
        parent = row.get(name)
        if isinstance(parent, str) and parent:
            return parent
    return ""


def walk(roots: Iterable[ThreadNode]) -> Iterator[ThreadNode]:
    """Every node, each before its children, for a tree of any depth."""
    waiting = list(roots)[::-1]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(node.children))


def branch(rows: Iterable[Fields], leaf: str) -> list[Fields]:
    """The thread that ends with `leaf`, from its root: the content of a forked or rewound conversation."""
    by_uuid: dict[str, Fields] = {}
    for row in rows:
        uuid = row.get("uuid")
        if isinstance(uuid, str):
            by_uuid.setdefault(uuid, row)
    found: dict[str, Fields] = {}
    while leaf in by_uuid and leaf not in found:
        found[leaf] = by_uuid[leaf]
        leaf = parent_of(by_uuid[leaf])
    return list(found.values())[::-1]


def _closing_circles(parents: Mapping[str, str]) -> set[str]:
    """The first row of every cycle of parents."""
    order = {uuid: number for number, uuid in enumerate(parents)}
    seen: set[str] = set()
    firsts: set[str] = set()
    for start in parents:
        path: dict[str, None] = {}
        at = start
        while at in parents and at not in seen:
            seen.add(at)
            path[at] = None
            at = parents[at]
        if at in path:
            circle = list(path)[list(path).index(at) :]
            firsts.add(min(circle, key=order.__getitem__))
    return firsts


# --- working or idle ------------------------------------------------------------------------------------
# The authoritative state is `SessionState.phase`: it stays `working` until the turn has ended, also during thinking and
# between tools, where a client that has only the rows must guess.


class Working(msgspec.Struct, frozen=True):
    """The state of a client that has only the rows. `asked`: a user row came since the last end of a turn."""

    working: bool = False
    tools: bool = False
    asked: bool = False


def fold(state: Working, row: Fields) -> Working:
    """The state after one more row. A `dequeue` means idle only if no prompt came since the last turn ended: the CLI
    writes it when it takes a prompt from its queue, which is the beginning of work and not its end."""
    kind = row.get("type")
    if kind == "user":
        return Working(True, state.tools, True)
    if kind == "progress":
        return Working(True, state.tools, state.asked)
    if kind == "assistant":
        tools = _has_tools(row.get("message"))
        return Working(tools, tools, state.asked and tools)
    if kind == "result":
        return Working(False, state.tools, False)
    if kind == "queue-operation" and row.get("operation") == "dequeue" and not state.asked:
        return Working(False, state.tools, False)
    return state


def _has_tools(message: Any) -> bool:
    content = message.get("content") if isinstance(message, dict) else None
    return isinstance(content, list) and any(
        isinstance(block, dict) and block.get("type") == "tool_use" for block in content
    )
