"""The tree of a conversation, and the reducer that shows whether it is working."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_testing.threads import ThreadNode, Working, branch, fold, tree, walk

Row = dict[str, Any]


def row(uuid: str, parent: str | None = None, **fields: Any) -> Row:
    return {"type": "user", "uuid": uuid, "parentUuid": parent, **fields}


def shape(nodes: list[ThreadNode]) -> Any:
    return [(node.uuid, shape(node.children)) if node.children else node.uuid for node in nodes]


@pytest.mark.rules("S000-185", "S000-191", "S000-192", "S000-193")
def test_rows_hang_on_their_parents() -> None:
    rows = [row("a", extra=1), row("b", "a"), row("c", "b"), row("d", "c"), row("e", "d")]
    roots = tree(rows)
    assert shape(roots) == [("a", [("b", [("c", [("d", ["e"])])])])]
    assert [node.row for node in walk(roots)] == rows
    assert tree([row("a")])[0].children == []


@pytest.mark.rules("S000-194")
def test_an_orphan_is_a_root() -> None:
    assert shape(tree([row("a"), row("b", "gone"), row("c", "b")])) == ["a", ("b", ["c"])]


@pytest.mark.rules("S000-196")
def test_a_parent_may_come_after_its_child() -> None:
    assert shape(tree([row("b", "a"), row("c", "b"), row("a")])) == [("a", [("b", ["c"])])]


def test_rows_without_a_uuid_are_not_nodes_and_the_first_of_a_repeated_uuid_counts() -> None:
    rows = [{"type": "summary", "summary": "s"}, row("a", text=1), row("a", "b", text=2), {"uuid": 5}, {"uuid": ""}]
    assert [(node.uuid, node.row["text"]) for node in walk(tree(rows))] == [("a", 1)]


def test_a_compaction_boundary_hangs_on_its_logical_parent() -> None:
    boundary = row("b", None, logicalParentUuid="a", subtype="compact_boundary")
    assert shape(tree([row("a"), boundary, row("c", "b")])) == [("a", [("b", ["c"])])]


def test_a_fork_is_a_sibling() -> None:
    rows = [row("a"), row("b", "a"), row("c", "b"), row("b2", "a"), row("c2", "b2")]
    assert shape(tree(rows)) == [("a", [("b", ["c"]), ("b2", ["c2"])])]
    assert [item["uuid"] for item in branch(rows, "c2")] == ["a", "b2", "c2"]
    assert branch(rows, "unknown") == []


def test_cycles_end_and_lose_no_row() -> None:
    rows = [row("x", "y"), row("a", "b"), row("b", "c"), row("c", "a"), row("y"), row("self", "self"), row("d", "c")]
    assert sorted(node.uuid for node in walk(tree(rows))) == sorted(item["uuid"] for item in rows)
    assert [item["uuid"] for item in branch(rows, "b")] == ["a", "c", "b"]


UUIDS = st.sampled_from("abcdefgh")
ROWS = st.lists(st.builds(row, UUIDS, st.one_of(st.none(), UUIDS)), max_size=20)


@given(ROWS)
@pytest.mark.rules("S000-195")
def test_every_row_is_in_the_tree_once_and_siblings_keep_their_order(rows: list[Row]) -> None:
    roots = tree(rows)
    order = list(dict.fromkeys(item["uuid"] for item in rows))
    assert sorted(node.uuid for node in walk(roots)) == sorted(order)
    for siblings in (roots, *(node.children for node in walk(roots))):
        places = [order.index(node.uuid) for node in siblings]
        assert places == sorted(places)


def test_a_thread_of_100_000_rows_is_walked() -> None:
    rows = [row(str(number), str(number - 1)) for number in range(100_000)]
    assert sum(1 for _ in walk(tree(rows))) == 100_000
    assert len(branch(rows, "99999")) == 100_000


# --- working or not ---------------------------------------------------------------------------------------


def says(*kinds: str) -> Row:
    return {"type": "assistant", "message": {"content": [{"type": kind} for kind in kinds]}}


DEQUEUE = {"type": "queue-operation", "operation": "dequeue"}
USER = {"type": "user", "message": {"content": "hi"}}
RESULT = {"type": "user", "message": {"content": [{"type": "tool_result"}]}}


def folded(*rows: Row) -> Working:
    state = Working()
    for item in rows:
        state = fold(state, item)
    return state


@pytest.mark.rules("S000-022", "S000-023", "S000-024", "S000-025")
def test_work_begins_with_a_user_row_or_progress() -> None:
    assert not folded().working
    assert folded(USER).working
    assert folded(USER, says("text"), RESULT).working
    assert folded({"type": "progress"}).working


@pytest.mark.rules("S000-026", "S000-027", "S000-028", "S000-029", "S000-036")
def test_an_answer_with_tools_continues_and_one_without_ends() -> None:
    assert folded(USER, says("text", "tool_use")) == Working(True, True, True)
    assert folded(USER, says("tool_use"), RESULT, says("text")) == Working(False, False, False)
    for odd in ({"type": "assistant"}, {"type": "assistant", "message": {}}, {"type": "assistant", "message": 5}):
        assert not folded(USER, odd).working


@pytest.mark.rules("S000-030", "S000-031")
def test_a_dequeue_ends_work_unless_a_prompt_waits_for_its_answer() -> None:
    assert not folded({"type": "progress"}, DEQUEUE).working
    assert not folded(USER, says("text"), {"type": "progress"}, DEQUEUE).working
    assert folded(USER, DEQUEUE).working
    assert folded({"type": "progress"}, {**DEQUEUE, "operation": "enqueue"}).working


@pytest.mark.rules("S000-032")
@given(st.sampled_from([Working(), Working(True, True, True)]), st.text())
def test_every_other_type_changes_nothing(state: Working, kind: str) -> None:
    known = ("user", "progress", "assistant", "result", "queue-operation")
    assert fold(state, {"type": "x" if kind in known else kind}) == state


def test_a_result_ends_work() -> None:
    assert folded(USER, says("tool_use"), {"type": "result"}) == Working(False, True, False)
