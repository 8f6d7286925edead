"""Changes the index, the files and the branch of a user's repository, for a person who reviews.

No hook, filter or signing program of the repository runs: the commands that touch files have the gateway's own
configuration, the others move references only. A file that a filter would convert is therefore left to the agent.
"""

import os
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from fairlead.model.errors import BadRequest, Busy, RequestRejected
from fairlead.review import formats
from fairlead.review.api import CommitMade, GitState
from fairlead.review.comparison import tree_name
from fairlead.review.private_repository import UNTRACKED, GitFailed, PrivateRepository
from fairlead.system.tasks import all_of

T = TypeVar("T")

_UNDER_WAY = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "BISECT_LOG")
_AHEAD = "%(upstream:short)%00%(upstream:track,nobracket)%00%(objectname)%00%(contents:subject)"


class FilteredFile(RequestRejected, code="filtered_file", status=409):
    """A file that the repository converts by a program."""


class IndexState:
    """Which files differ between the last commit, the index and the working tree."""

    def __init__(self, staged: set[bytes], unstaged: set[bytes], untracked: set[bytes]) -> None:
        self.staged = staged
        self.unstaged = unstaged
        self.untracked = untracked


async def index_state(repository: PrivateRepository) -> IndexState:
    repository.copy_shared_index()
    most = 32 << 20
    tree = tree_name(await repository.head_tree())
    quiet = ("-z", "--name-only", "--ignore-submodules=dirty")
    found = await all_of(
        repository.git("diff-index", "--cached", *quiet, tree, most=most, own_index=False),
        repository.git("diff-files", *quiet, most=most, own_index=False),
        repository.git(*UNTRACKED, most=most, own_index=False),
    )
    return IndexState(*({path.rstrip(b"/") for path in formats.names(data)} for data in found))


async def git_state(repository: PrivateRepository) -> GitState:
    """The branch and its last commit; `staged` is not counted."""
    user = repository.user
    name = (await repository.users_git("symbolic-ref", "--quiet", "HEAD", check=False)).decode(errors="replace").strip()
    found = (await repository.users_git("for-each-ref", f"--format={_AHEAD}", name) if name else b"").rstrip(b"\n")
    upstream, track, head, subject = [*found.decode(errors="replace").split("\0"), "", "", "", ""][:4]
    if not name:
        head = (await repository.users_git("rev-parse", "--verify", "--quiet", "HEAD", check=False)).decode().strip()
    counts = {word: int(number) for word, number in (part.split() for part in track.split(", ") if " " in part)}
    main = os.path.dirname(user.common_dir) if user.common_dir != user.git_dir else ""
    return GitState(
        top=user.top,
        branch=name.removeprefix("refs/heads/"),
        head=head,
        subject=subject,
        upstream=upstream,
        ahead=counts.get("ahead", 0),
        behind=counts.get("behind", 0),
        merging=_merging(user.git_dir),
        worktree_of=main,
    )


def _merging(git_dir: str) -> bool:
    return any(os.path.lexists(os.path.join(git_dir, marker)) for marker in _UNDER_WAY)


async def stage(repository: PrivateRepository, paths: Sequence[bytes]) -> None:
    await refuse_filtered(repository, paths)
    await _changing(repository.update_index(paths, users=True))


async def unstage(repository: PrivateRepository, paths: Sequence[bytes]) -> None:
    entries = await _index_lines(repository, await repository.head_tree(), paths)
    await _changing(repository.git("update-index", "-z", "--index-info", stdin=entries, own_index=False, write=True))


async def discard(repository: PrivateRepository, snapshot: str, paths: Sequence[bytes]) -> None:
    """Make files as in the last commit. `snapshot` has them as they are: what it does not have is not discarded."""
    for entry in await _entries(repository, snapshot, paths):
        if entry.hash in repository.markers or entry.mode == "160000":
            what = "a submodule" if entry.mode == "160000" else "too large to be kept for an undo"
            raise BadRequest(f"{formats.shown_path(entry.path)} is {what}: ask the agent to discard it.")
    await restore(repository, await repository.head_tree(), paths, index=True)


async def restore(repository: PrivateRepository, tree: str, paths: Sequence[bytes], *, index: bool) -> None:
    """Make files as they are in a tree; delete those that it does not have. `index`: in the index too."""
    await refuse_filtered(repository, paths)
    present = {entry.path for entry in await _entries(repository, tree, paths)}
    lines = await _index_lines(repository, tree, paths)
    if index:
        await _changing(repository.git("update-index", "-z", "--index-info", stdin=lines, own_index=False, write=True))
    await repository.git("update-index", "-z", "--index-info", stdin=lines)
    found = [path for path in paths if path in present]
    if found:
        await repository.git("checkout-index", "-f", "-u", "-z", "--stdin", stdin=_joined(found))
    gone = [path for path in paths if path not in present]
    if gone:
        # `clean` deletes what is in no index, and follows no link on the way.
        await repository.git("clean", "-f", "-d", "-x", "-q", "--", *gone)


async def commit(repository: PrivateRepository, message: str) -> CommitMade:
    if not message.strip():
        raise BadRequest("A commit needs a message.")
    state = await git_state(repository)
    if state.merging:
        raise Busy("A merge or rebase is under way in this repository: let the agent finish it first.")
    tree = (await _changing(repository.git("write-tree", own_index=False, write=True))).decode().strip()
    if tree == await repository.head_tree():
        raise BadRequest("Nothing is staged: stage the files that belong into the commit.")
    parents = (state.head,) if state.head else ()
    name = await commit_tree(repository, tree, parents, message)
    # The old value is given: a commit that the agent makes at the same moment is not lost.
    old = state.head or "0" * len(name)
    subject = message.strip().splitlines()[0]
    await _changing(repository.users_git("update-ref", "-m", f"commit: {subject[:200]}", "HEAD", name, old))
    return CommitMade(commit=name, branch=state.branch)


async def commit_tree(repository: PrivateRepository, tree: str, parents: Sequence[str], message: str) -> str:
    """Store a commit in the user's repository, by the author that git is configured with; return its hash."""
    settings = await repository.settings()
    author, email = settings.get("user.name", ""), settings.get("user.email", "")
    if not author or not email:
        raise BadRequest(
            "git does not know who commits: run `git config user.name` and `git config user.email` in this repository."
        )
    who = ("-c", f"user.name={author}", "-c", f"user.email={email}")
    above = [word for parent in parents for word in ("-p", parent)]
    text = message.strip().encode() + b"\n"
    made = await repository.git(*who, "commit-tree", tree, *above, "-F", "-", stdin=text, write=True)
    return made.decode().strip()


async def _changing(work: Awaitable[T]) -> T:
    """Await a command that needs git's lock."""
    try:
        return await work
    except GitFailed as error:
        if ".lock" in error.message:
            text = "Another git is at work in this repository: try again when it has finished."
            raise Busy(text, git=error.message) from error
        raise


async def refuse_filtered(repository: PrivateRepository, paths: Sequence[bytes]) -> None:
    output = await repository.git("check-attr", "-z", "--stdin", "filter", stdin=_joined(paths))
    for path, name in formats.attributes(output).items():
        raise FilteredFile(
            f"{formats.shown_path(path)} goes through the filter {name} of this repository, which the gateway does not "
            "run: ask the agent to do it.",
            filter=name,
        )


async def _entries(repository: PrivateRepository, tree: str, paths: Sequence[bytes]) -> list[formats.TreeEntry]:
    output = await repository.git("ls-tree", "-r", "-z", "--full-tree", tree_name(tree), "--", *paths, most=32 << 20)
    wanted = set(paths)
    return [entry for entry in formats.tree_entries(output) if entry.path in wanted]


async def _index_lines(repository: PrivateRepository, tree: str, paths: Sequence[bytes]) -> bytes:
    """The lines for `update-index --index-info` that make paths in an index equal to those in a tree."""
    entries = await _entries(repository, tree, paths)
    gone = set(paths) - {entry.path for entry in entries}
    nothing = b"0" * (len(tree) if tree else 40)
    removed = b"".join(b"0 %s\t%s\0" % (nothing, path) for path in sorted(gone))
    return removed + b"".join(
        b"%s %s\t%s\0" % (entry.mode.encode(), entry.hash.encode(), entry.path) for entry in entries
    )


def _joined(paths: Sequence[bytes]) -> bytes:
    return b"".join(path + b"\0" for path in paths)
