"""The changes of a session: the requests for them and the answers. Pure.

`base` names what the working tree is compared with: `session` (its beginning), `commit` (the last commit) or a turn's
id (then the end of the turn is compared with its beginning). Trees are named by their hash, so that all pages of a list
and all diffs of its files are about the same moment.
"""

from typing import Literal

import msgspec

from fairlead.model.ids import SessionId
from fairlead.model.web.requests import ServiceCall
from fairlead.review.formats import ChangeStatus, DiffPair, DiffRow

PAGE_FILES = 500
"""Most files of one page."""
PAGE_ROWS = 5000
"""Most rows of a diff in one answer."""
CONTEXT = 3
MOST_CONTEXT = 100_000


class TurnChanges(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A turn whose beginning is known. `changed`: its end differs from its beginning. `running`: it has no end yet."""

    turn: str
    at: int
    prompt: str = ""
    changed: bool = False
    running: bool = False


class GitState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`branch` is empty if no branch is checked out; `head` is empty before the first commit. `staged`: the number of
    files in the next commit. `merging`: a merge, rebase or similar is under way. `worktree_of`: the main folder of the
    repository, if this is another of its worktrees."""

    top: str
    branch: str = ""
    head: str = ""
    subject: str = ""
    upstream: str = ""
    ahead: int = 0
    behind: int = 0
    staged: int = 0
    merging: bool = False
    worktree_of: str = ""


class ChangedFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`key` names the file in requests; `path` is for display. `binary`: it has no lines to count. `kind`: `link` is a
    symbolic link, `large` a file of which only the size is known. `staged` and `unstaged`: it differs from the last
    commit in the index, and from the index in the working tree; neither: the change is committed."""

    key: str
    path: str
    status: ChangeStatus
    old_path: str = ""
    old_key: str = ""
    kind: Literal["file", "link", "submodule", "large"] = "file"
    added: int = 0
    removed: int = 0
    binary: bool = False
    executable: bool | None = None
    """Set if the change makes the file executable, or no longer so."""
    staged: bool = False
    unstaged: bool = False
    untracked: bool = False


class ChangeList(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page of changed files, by path. `source`: `git` compares snapshots; `log` has the edits of the session's log,
    because the folder is in no repository. `before` and `after` are the compared trees. `next`: the position of the
    next page."""

    source: Literal["git", "log"]
    base: str
    files: tuple[ChangedFile, ...]
    total: int
    before: str = ""
    after: str = ""
    next: int | None = None
    git: GitState | None = None
    turns: tuple[TurnChanges, ...] = ()
    began: int = 0


class FileDiff(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Rows of a file's diff from position `start`; `total` is their number in the whole diff. `rows` in one column,
    `pairs` in two. `note`: why there are no rows, or not all. Sizes are in bytes; None: the file does not exist."""

    key: str
    path: str
    total: int
    start: int = 0
    rows: tuple[DiffRow, ...] = ()
    pairs: tuple[DiffPair, ...] = ()
    note: str = ""
    old_size: int | None = None
    new_size: int | None = None


class Discarded(msgspec.Struct, frozen=True, kw_only=True):
    """`tree` has the files as they were: `RestoreFiles` brings them back."""

    files: int
    tree: str


class CommitMade(msgspec.Struct, frozen=True, kw_only=True):
    commit: str
    branch: str


class WorktreeView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A worktree of a repository. `branch` is empty if no branch is checked out. `main`: it is the repository's own
    folder. `sessions`: those of the caller that work in it."""

    path: str
    head: str = ""
    branch: str = ""
    main: bool = False
    sessions: tuple[str, ...] = ()


class WorktreeState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is only in this worktree: the number of uncommitted files, and of commits that no other branch has. `into`:
    the branch that it is merged into, which is checked out in the main folder."""

    path: str
    main: str
    branch: str = ""
    into: str = ""
    uncommitted: int = 0
    unmerged: int = 0


class WorktreeClosed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`commit`: the one that the main folder's branch is at after a merge."""

    state: WorktreeState
    commit: str = ""


class ListWorktrees(ServiceCall["tuple[WorktreeView, ...]"], frozen=True):
    """-> tuple of `WorktreeView`, the main folder first. `folder` is in the repository."""

    folder: str


class CloseWorktree(ServiceCall["WorktreeClosed"], frozen=True, kw_only=True):
    """-> `WorktreeClosed`. `keep` only reports. `merge` merges its branch into that of the main folder, `discard`
    removes the worktree and its branch; `force`: although work is lost."""

    session: SessionId
    how: Literal["keep", "merge", "discard"]
    force: bool = False


class ListChanges(ServiceCall["ChangeList"], frozen=True, kw_only=True):
    """-> `ChangeList`. `before` and `after`: the trees of the first page, for the following ones."""

    session: SessionId
    base: str = "session"
    before: str = ""
    after: str = ""
    start: int = 0
    limit: int = PAGE_FILES


class ReadFileDiff(ServiceCall["FileDiff"], frozen=True, kw_only=True):
    """-> `FileDiff`. With `base` `log` the trees are empty."""

    session: SessionId
    before: str
    after: str
    key: str
    old_key: str = ""
    context: int = CONTEXT
    columns: Literal[1, 2] = 1
    start: int = 0
    limit: int = PAGE_ROWS


class StageFiles(ServiceCall[int], frozen=True, kw_only=True):
    """-> int: the number of files that are staged now. With `staged` false they are taken out of the index."""

    session: SessionId
    keys: tuple[str, ...]
    staged: bool = True


class CommitStaged(ServiceCall["CommitMade"], frozen=True, kw_only=True):
    """-> `CommitMade`: what is staged, on the branch that is checked out. No hook runs, nothing is signed."""

    session: SessionId
    message: str


class DiscardFiles(ServiceCall["Discarded"], frozen=True, kw_only=True):
    """-> `Discarded`: the files are as in the last commit; those that it does not have are deleted."""

    session: SessionId
    keys: tuple[str, ...]


class RestoreFiles(ServiceCall[int], frozen=True, kw_only=True):
    """-> int: the number of files that are again as in the tree."""

    session: SessionId
    tree: str
    keys: tuple[str, ...]
