"""The report on an open request: made from the real file, for callers who may see it, gone when it is answered."""

import os
from pathlib import Path

import msgspec
import pytest

from fairlead.model import commands as cmd
from fairlead.model import queries as q
from fairlead.model.errors import BadRequest, NotFound, OutsideRoots
from fairlead.model.ids import RequestId
from fairlead.sessions.api.folders import FolderPage, ListFolders
from fairlead.sessions.folders.known import MOST, KnownFolders
from fairlead.system.regular_files import read_text
from sessions.harness import ANN, BOB, SESSION, CoreHarness, FakeAgent


async def report(harness: CoreHarness, rule: str = "", *, admin: bool = False) -> q.PermissionReport:
    found: q.PermissionReport = await harness.gateway.ask(BOB, q.ExplainPermission("r1", rule, admin))
    return found


async def asking(harness: CoreHarness, tool: str, **given: object) -> FakeAgent:
    agent = await harness.working("one")
    await agent.call("c1", tool, **given)
    await agent.ask("r1", "c1", tool, **given)
    return agent


async def test_a_change_is_shown_as_the_file_before_and_after(harness: CoreHarness) -> None:
    file = harness.cwd / "a.txt"
    file.write_text("one\ntwo\n")
    await asking(harness, "Edit", file_path=str(file), old_string="two", new_string="three")
    shown = await report(harness)
    assert shown.session == SESSION and shown.cwd == str(harness.cwd) and shown.title
    assert msgspec.json.decode(shown.event)["request"] == "r1"
    (change,) = shown.files
    assert (change.before, change.after, change.whole) == ("one\ntwo\n", "one\nthree\n", True)


async def test_a_file_outside_the_session_is_never_read(harness: CoreHarness) -> None:
    secret = harness.folder / "secret.txt"
    secret.write_text("hunter2")
    link = harness.cwd / "link.txt"
    link.symlink_to(secret)
    await asking(harness, "Write", file_path=str(link), content="new")
    (change,) = (await report(harness)).files
    assert change.outside and not change.whole
    assert "hunter2" not in change.before


async def test_a_rule_is_explained_for_its_caller_and_the_report_is_gone_after_the_answer(harness: CoreHarness) -> None:
    await asking(harness, "Bash", command="touch x")
    shown = await report(harness, rule="Bash(touch:*)")
    assert [rule.rule for rule in shown.suggested] == ["Bash(touch x)"]
    assert shown.rule is not None and shown.rule.enough
    assert (await report(harness, rule="Bash")).rule == q.RuleScope(
        rule="Bash", covers="", problem="would allow every command: name one, or let an admin set it"
    )
    admins = await report(harness, rule="Bash", admin=True)
    assert admins.rule is not None and admins.rule.enough
    await harness.do(cmd.AnswerPermission(session=SESSION, request=RequestId("r1"), behavior="allow"), ANN)
    with pytest.raises(NotFound):
        await report(harness)


async def test_usage_stats_come_from_the_store(harness: CoreHarness) -> None:
    agent = await harness.working("one")
    await agent.result(total_cost_usd=0.5, modelUsage={"opus": {"inputTokens": 3, "outputTokens": 4, "costUSD": 0.5}})
    await harness.store.wait_indexed()
    now = harness.clock.now_ms()
    found = await harness.gateway.ask(BOB, q.ReadUsageStats(now - 86_400_000, now + 86_400_000))
    assert [(row.project, row.model, row.input, row.output) for row in found.spent] == [
        (str(harness.cwd), "opus", 3, 4)
    ]
    assert [row.turns for row in found.turns] == [1]


def test_only_small_text_files_are_read(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("é")
    assert read_text(str(file), 10) == "é"
    assert read_text(str(tmp_path / "none"), 10) == ""
    assert read_text(str(file), 1) is None
    assert read_text(str(tmp_path), 10) is None
    (tmp_path / "bytes").write_bytes(b"\xff")
    assert read_text(str(tmp_path / "bytes"), 10) is None
    (tmp_path / "link").symlink_to(file)
    assert read_text(str(tmp_path / "link"), 10) is None
    os.mkfifo(tmp_path / "pipe")
    assert read_text(str(tmp_path / "pipe"), 10) is None


async def browse(harness: CoreHarness, action: ListFolders, *roots: Path) -> FolderPage:
    policy = msgspec.structs.replace(harness.services.policy, roots=tuple(map(str, roots)))
    known = KnownFolders(harness.store.documents, policy, harness.gateway.resolve_folder)
    page: FolderPage = await known.handlers()[ListFolders](BOB, action)
    return page


async def test_folders_are_listed_inside_the_roots_and_nowhere_else(harness: CoreHarness, tmp_path: Path) -> None:
    root = harness.folder / "work"
    for name in ("b", "A", ".hidden", "c/.git"):
        (root / name).mkdir(parents=True)
    (root / "file").write_text("")
    (root / "out").symlink_to("/")
    (root / "in").symlink_to(root / "b")
    page = await browse(harness, ListFolders(str(root)), root)
    assert [(one.name, one.repository) for one in page.folders] == [
        ("A", False),
        ("b", False),
        ("c", True),
        ("in", False),
    ]
    assert page.parent == "", "above the root is nobody's business"
    below = await browse(harness, ListFolders(str(root / "b")), root)
    assert (below.folders, below.parent) == ((), str(root))
    for path, error in (("/etc", OutsideRoots), (str(root / "none"), NotFound), ("relative", BadRequest)):
        with pytest.raises(error):
            await browse(harness, ListFolders(path), root)
    with pytest.raises(OutsideRoots):
        await browse(harness, ListFolders(str(root / "b" / ".." / ".." / "..")), root)


async def test_several_roots_are_listed_first_and_a_long_list_is_cut(harness: CoreHarness) -> None:
    one, two = harness.folder / "one", harness.folder / "two"
    for number in range(MOST + 1):
        (one / f"{number:05}").mkdir(parents=True)
    two.mkdir()
    assert [folder.path for folder in (await browse(harness, ListFolders(), one, two)).folders] == [str(one), str(two)]
    page = await browse(harness, ListFolders(str(one)), one, two)
    assert len(page.folders) == MOST and page.more
