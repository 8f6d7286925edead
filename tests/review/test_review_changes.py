"""The changes of a session on real repositories: every kind of file, names and states of git."""

import asyncio
import os
from pathlib import Path

import pytest

from fairlead.model import events as ev
from fairlead.model.content import TextBlock
from fairlead.model.errors import BadRequest, NotFound
from fairlead.model.ids import CallId, EventId, MessageId, TurnId
from fairlead.review import api, private_repository
from fairlead.review.snapshots import Snapshots
from review.repositories import Place, git, repository, statuses, texts
from sessions.harness import SESSION

pytestmark = pytest.mark.process


def turn_started(turn: str, prompt: str = "") -> list[ev.Event]:
    message = ev.UserMessage(id=EventId("m" + turn), message=MessageId("m"), content=(TextBlock(prompt),))
    return [ev.TurnStarted(id=EventId("s" + turn), turn=TurnId(turn), at=5), message]


def turn_ended(turn: str) -> list[ev.Event]:
    return [ev.TurnEnded(id=EventId("e" + turn), turn=TurnId(turn), status="completed")]


async def play(place: Place, turn: str, prompt: str = "") -> None:
    """A turn that the core begins."""
    await place.begin()
    place.snapshots.committed(SESSION, turn_started(turn, prompt))
    await place.snapshots.tasks.wait()


async def over(place: Place, turn: str) -> None:
    place.snapshots.committed(SESSION, turn_ended(turn))
    await place.snapshots.tasks.wait()


async def test_changes_since_the_session_began_and_by_turn(place: Place) -> None:
    repository(place.project)
    (place.project / "a.txt").write_text("dirty before the session\n")
    await play(place, "t1", "  Fix\nthis  ")
    (place.project / "b.txt").write_text("by the first turn\n")
    await over(place, "t1")
    (place.project / "by-hand.txt").write_text("between the turns\n")
    await play(place, "t2")
    (place.project / "b.txt").unlink()
    (place.project / "c.txt").write_text("by the second turn\n")
    running = await place.changes("t2")
    await over(place, "t2")
    assert statuses(await place.changes()) == {"by-hand.txt": "added", "c.txt": "added"}
    assert statuses(await place.changes("t1")) == {"b.txt": "added"}
    assert statuses(await place.changes("t2")) == statuses(running) == {"b.txt": "deleted", "c.txt": "added"}
    found = await place.changes("commit")
    assert statuses(found) == {"a.txt": "modified", "by-hand.txt": "added", "c.txt": "added"}
    assert [(one.turn, one.at, one.prompt, one.changed, one.running) for one in found.turns] == [
        ("t1", 5, "Fix this", True, False),
        ("t2", 5, "", True, False),
    ]
    assert (running.turns[1].running, found.git and found.git.branch) == (True, "main")
    with pytest.raises(NotFound):
        await place.changes("t3")


async def test_snapshots_survive_a_restart_of_the_gateway(place: Place, tmp_path: Path) -> None:
    repository(place.project)
    await play(place, "t1")
    (place.project / "a.txt").write_text("changed\n")
    await over(place, "t1")
    before = await place.changes("t1")
    old = place.snapshots
    place.snapshots = place.service._snapshots = Snapshots(old.folder, old._find, old._access, place.clock)
    assert await place.changes("t1") == before


async def test_commits_of_the_agent_are_changes_of_the_session(place: Place) -> None:
    repository(place.project)
    await place.begin()
    (place.project / "a.txt").write_text("one\nTWO\nthree\n")
    git(place.project, "commit", "-qam", "by the agent")
    found = await place.changes()
    (file,) = found.files
    assert (file.path, file.added, file.removed) == ("a.txt", 1, 1)
    assert not (file.staged or file.unstaged or file.untracked), "it is committed"
    assert texts(await place.diff(found, "a.txt")) == [" one", "-two", "+TWO", " three"]
    assert (await place.changes("commit")).files == ()


async def test_the_users_repository_is_only_read(place: Place) -> None:
    """Neither the index nor an object, reference or file of it changes, and what is staged stays so."""
    repository(place.project)
    (place.project / "staged.txt").write_text("staged\n")
    git(place.project, "add", "staged.txt")
    (place.project / "staged.txt").write_text("staged, then changed\n")
    (place.project / "new.txt").write_text("new\n")

    def state() -> dict[str, bytes]:
        paths = [path for path in place.project.rglob("*") if path.is_file()]
        return {str(path): path.read_bytes() for path in paths}

    before = state()
    await play(place, "t1")
    found = await place.changes("commit")
    await place.diff(found, "staged.txt")
    await over(place, "t1")
    assert state() == before
    file = next(file for file in found.files if file.path == "staged.txt")
    assert (file.staged, file.unstaged) == (True, True)
    assert (found.git and found.git.staged) == 1


async def test_every_kind_of_file(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_repository, "LARGE", 1000)
    monkeypatch.setattr("fairlead.review.comparison.LARGE", 1000)
    project = repository(place.project, old="\n".join(map(str, range(50))), script="x\n", kind="x\n", big="x\n")
    (project / "data").write_bytes(bytes(range(256)))
    (project / "link").symlink_to("old")
    git(project, "add", ".")
    git(project, "commit", "-qm", "second")
    other = repository(place.root / "other")
    await place.begin()
    (project / "old").rename(project / "moved")
    (project / "script").chmod(0o755)
    (project / "kind").unlink()
    (project / "kind").symlink_to("old")
    (project / "link").unlink()
    (project / "link").symlink_to("elsewhere")
    (project / "data").write_bytes(bytes(range(256)) * 2)
    (project / "big").write_bytes(b"x" * 5000)
    (project / "unreadable").write_text("")
    (project / "empty").write_text("")
    os.mkfifo(project / "pipe")
    git(project, "submodule", "add", "-q", str(other), "module")
    repository(project / "nested")
    (project / "unborn").mkdir()
    git(project / "unborn", "init", "-q")
    (project / "unborn" / "file").write_text("in a repository without a commit\n")
    found = await place.changes()
    assert statuses(found) == {
        ".gitmodules": "added",
        "big": "modified",
        "data": "modified",
        "empty": "added",
        "kind": "retyped",
        "link": "modified",
        "module": "added",
        "moved": "renamed",
        "nested": "added",
        "script": "modified",
        "unborn": "added",
        "unreadable": "added",
    }
    files = {file.path: file for file in found.files}
    assert files["moved"].old_path == "old"
    assert files["script"].executable is True
    assert (files["link"].kind, files["module"].kind, files["big"].kind) == ("link", "submodule", "large")
    assert (files["nested"].kind, files["unborn"].kind) == ("submodule", "large")
    assert files["data"].binary
    notes = {path: await place.diff(found, path) for path in files}
    assert notes["big"].note == "large" and (notes["big"].old_size, notes["big"].new_size) == (2, 5000)
    assert notes["data"].note == "binary" and notes["data"].new_size == 512
    assert notes["script"].note == "mode"
    assert notes["moved"].note == "renamed"
    assert notes["empty"].total == 0
    assert notes["module"].note.startswith("submodule none ")
    assert texts(notes["link"]) == ["-old", "\\No newline at end of file", "+elsewhere", "\\No newline at end of file"]


NAMES = (b"new\nline", b"tab\t", b"caf\xc3\xa9", b"latin-\xe9", b'quote"', b"back\\slash", b":(glob)*", b"-rf", b" ")


async def test_names_of_any_bytes(place: Place) -> None:
    repository(place.project)
    await place.begin()
    for name in NAMES:
        with open(os.fsencode(place.project) + b"/" + name, "w") as opened:  # noqa: ASYNC230
            opened.write("text\n")
    found = await place.changes()
    assert len(found.files) == len({file.key for file in found.files}) == len(NAMES)
    for file in found.files:
        action = api.ReadFileDiff(session=SESSION, key=file.key, before=found.before, after=found.after)
        assert texts(await place.do(action)) == ["+text"], file
    keys = tuple(file.key for file in found.files)
    assert await place.do(api.StageFiles(session=SESSION, keys=keys)) == len(NAMES)
    assert set(git(place.project, "diff", "--cached", "--name-only", "-z").split(b"\0")) == {*NAMES, b""}
    await place.do(api.DiscardFiles(session=SESSION, keys=keys))
    assert git(place.project, "status", "--porcelain") == b""


async def test_files_of_the_gateway_and_keys_are_not_shown(place: Place, tmp_path: Path) -> None:
    repository(place.project)
    place.paths.closed = (str(place.project / "private"),)
    await place.begin()
    (place.project / "private").mkdir()
    (place.project / "private" / "token").write_text("secret\n")
    (place.project / ".ssh").mkdir()
    (place.project / ".ssh" / "id").write_text("secret\n")
    (place.project / "out").symlink_to(place.data)
    found = await place.changes()
    assert statuses(found) == {"out": "added"}, "a link is a link: what it leads to is not read"
    for key in (".ssh/id", "private/token"):
        action = api.ReadFileDiff(session=SESSION, key=key, before=found.before, after=found.after)
        with pytest.raises(NotFound):
            await place.do(action)
        for change in (api.StageFiles(session=SESSION, keys=(key,)), api.DiscardFiles(session=SESSION, keys=(key,))):
            with pytest.raises(NotFound):
                await place.do(change)


@pytest.mark.parametrize("tree", ["HEAD", "main", "--output=x", "a" * 39])
async def test_only_hashes_name_trees(place: Place, tree: str) -> None:
    repository(place.project)
    await place.begin()
    with pytest.raises(BadRequest):
        await place.changes(before=tree, after="a" * 40)


async def test_a_repository_without_a_commit(place: Place) -> None:
    git(place.project, "init", "-q", "-b", "main")
    await place.begin()
    (place.project / "a.txt").write_text("first\n")
    found = await place.changes()
    assert statuses(found) == statuses(await place.changes("commit")) == {"a.txt": "added"}
    assert found.git is not None and (found.git.branch, found.git.head) == ("main", "")
    await place.do(api.StageFiles(session=SESSION, keys=("a.txt",)))
    await place.do(api.CommitStaged(session=SESSION, message="first"))
    assert git(place.project, "log", "--format=%s") == b"first\n"


async def test_ignored_files_are_not_changes(place: Place) -> None:
    repository(place.project, **{".gitignore": "*.log\n"})
    (place.project / ".git" / "info" / "exclude").write_text("local\n")
    await place.begin()
    for name in ("x.log", "local", "shown"):
        (place.project / name).write_text("x")
    assert statuses(await place.changes()) == {"shown": "added"}


async def test_flags_in_the_index_hide_nothing(place: Place) -> None:
    repository(place.project, a="one\n", b="one\n", c="one\n")
    git(place.project, "update-index", "--assume-unchanged", "a")
    git(place.project, "update-index", "--skip-worktree", "b")
    await place.begin()
    for name in "abc":
        (place.project / name).write_text("two\n")
    assert set(statuses(await place.changes())) == {"a", "b", "c"}


async def test_a_detached_head_a_merge_and_an_upstream_are_reported(place: Place) -> None:
    origin = repository(place.root / "origin")
    git(place.project.parent, "clone", "-q", str(origin), str(place.project))
    (place.project / "a.txt").write_text("ours\n")
    git(place.project, "commit", "-qam", "ours")
    state = (await place.changes()).git
    assert state is not None
    assert (state.branch, state.upstream, state.ahead, state.behind, state.subject) == (
        "main",
        "origin/main",
        1,
        0,
        "ours",
    )
    git(place.project, "checkout", "-q", "-b", "theirs", "HEAD~1")
    (place.project / "a.txt").write_text("theirs\n")
    git(place.project, "commit", "-qam", "theirs")
    git(place.project, "merge", "main", check=False)
    state = (await place.changes()).git
    assert state is not None and state.merging
    git(place.project, "merge", "--abort")
    git(place.project, "checkout", "-q", "--detach")
    state = (await place.changes()).git
    assert state is not None and (state.branch, state.merging, len(state.head)) == ("", False, 40)


async def test_a_sha256_repository_and_a_split_index(place: Place) -> None:
    git(place.project, "init", "-q", "-b", "main", "--object-format=sha256")
    (place.project / "a.txt").write_text("one\n")
    git(place.project, "add", ".")
    git(place.project, "commit", "-qm", "first")
    git(place.project, "update-index", "--split-index")
    await place.begin()
    (place.project / "a.txt").write_text("two\n")
    found = await place.changes()
    assert len(found.before) == 64
    assert texts(await place.diff(found, "a.txt")) == ["-one", "+two"]
    await place.do(api.StageFiles(session=SESSION, keys=("a.txt",)))
    await place.do(api.CommitStaged(session=SESSION, message="second"))
    assert git(place.project, "status", "--porcelain") == b""


async def test_a_damaged_index_is_no_obstacle_to_the_snapshots(place: Place) -> None:
    repository(place.project)
    (place.project / ".git" / "index").write_bytes(b"not an index")
    await place.begin()
    assert (place.data / "review" / SESSION / "marks.json").exists()


async def test_pages_of_a_long_list_are_about_one_moment(place: Place) -> None:
    repository(place.project)
    await place.begin()
    for number in range(25):
        (place.project / f"{number:02}.txt").write_text("x\n")
    first = await place.changes(limit=10)
    (place.project / "later.txt").write_text("x\n")
    second = await place.changes(limit=10, start=10, before=first.before, after=first.after)
    third = await place.changes(limit=10, start=20, before=first.before, after=first.after)
    assert [page.next for page in (first, second, third)] == [10, 20, None]
    names = [file.path for page in (first, second, third) for file in page.files]
    assert names == [f"{number:02}.txt" for number in range(25)]
    assert all(file.untracked and file.added == 1 for file in second.files)


async def test_a_diff_is_read_row_by_row_in_one_and_in_two_columns(place: Place) -> None:
    repository(place.project, long="".join(f"{number}\n" for number in range(1000)))
    await place.begin()
    (place.project / "long").write_text("".join(f"new {number}\n" for number in range(1000)))
    found = await place.changes()
    whole = await place.diff(found, "long")
    assert whole.total == 2001
    pages = [await place.diff(found, "long", start=start, limit=500) for start in range(0, 2001, 500)]
    assert tuple(row for page in pages for row in page.rows) == whole.rows
    both = await place.diff(found, "long", columns=2)
    assert both.total == 1001 and len(both.pairs) == 1001 and both.rows == ()
    (place.project / "long").write_text("".join(f"{number}\n" for number in range(1000)) + "more\n")
    found = await place.changes()
    assert (await place.diff(found, "long")).total == 5
    assert (await place.diff(found, "long", context=100_000)).total == 1002


async def test_a_folder_without_a_repository_shows_the_edits_of_the_log(place: Place) -> None:
    def called(call: str, turn: str, name: str, **given: object) -> ev.Event:
        place_of = {"id": EventId(call), "call": CallId(call), "turn": TurnId(turn), "message": MessageId("m")}
        return ev.ToolCalled(**place_of, name=name, input=given)  # type: ignore[arg-type]

    def ended(call: str, **more: object) -> ev.Event:
        return ev.ToolEnded(id=EventId(f"{call}e"), call=CallId(call), **more)  # type: ignore[arg-type]

    edits = [{"old_string": "x", "new_string": "y"}, {"old_string": "1", "new_string": "2"}]
    place.session.events = [
        called("c1", "t1", "Edit", file_path="/w/a.py", old_string="one\ntwo\n", new_string="one\n2\n"),
        ended("c1"),
        called("c2", "t1", "Write", file_path="/w/b.py", content="whole\n"),
        called("c3", "t1", "Bash", command="rm a.py"),
        ended("c3"),
        ended("c2"),
        called("c4", "t2", "MultiEdit", file_path="/w/a.py", edits=edits),
        ended("c4"),
        called("c5", "t2", "Edit", file_path="/w/failed.py", old_string="a", new_string="b"),
        ended("c5", is_error=True, status="failed"),
        called("c6", "t2", "Edit", file_path="/w/open.py", old_string="a", new_string="b"),
    ]
    found = await place.changes()
    assert (found.source, found.git) == ("log", None)
    assert [(file.path, file.added, file.removed) for file in found.files] == [("/w/a.py", 3, 3), ("/w/b.py", 1, 0)]
    assert [turn.turn for turn in found.turns] == ["t1", "t2"]
    assert [file.path for file in (await place.changes("t2")).files] == ["/w/a.py"]
    diff = await place.diff(found, "/w/a.py")
    assert texts(diff) == [" one", "-two", "+2", "-x", "+y", "-1", "+2"]
    with pytest.raises(NotFound):
        await place.do(api.ReadFileDiff(session=SESSION, key="nothing", before="", after=""))


async def test_the_snapshots_of_a_deleted_session_go_with_it(place: Place) -> None:
    repository(place.project)
    await place.begin()
    assert (place.data / "review" / SESSION).is_dir()
    place.snapshots.deleted(SESSION)
    await place.snapshots.tasks.wait()
    assert list((place.data / "review").iterdir()) == []
    (place.data / "review" / "of-a-session-that-is-gone").mkdir()
    await place.service.start()
    await place.service.stop()
    assert list((place.data / "review").iterdir()) == []


async def test_a_turn_does_not_wait_for_a_slow_snapshot(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    repository(place.project)
    release = asyncio.Event()

    async def slow(self: private_repository.PrivateRepository) -> str:
        await release.wait()
        return "a" * 40

    monkeypatch.setattr(private_repository.PrivateRepository, "snapshot", slow)
    waiting = asyncio.create_task(place.begin())
    while not place.clock.waiting:
        await asyncio.sleep(0)
    await place.clock.advance(5)
    await waiting
    release.set()
    await place.snapshots.tasks.wait()


async def test_too_many_files_are_refused_in_words(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_repository, "SNAPSHOT_FILES", 10)
    repository(place.project)
    for number in range(20):
        (place.project / str(number)).write_text("")
    await place.begin()
    with pytest.raises(Exception, match="More than 10 files have changed"):
        await place.changes()
