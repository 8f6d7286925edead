"""Worktrees of a user's repository: made for a session, listed, merged, removed.

They are below `.worktrees` in the folder of the repository, so that they are inside the roots. No hook, filter or merge
driver of the repository runs. A worktree with work that is nowhere else is removed only by a person who was told so.
"""

import asyncio
import contextlib
import os
import re
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final

from fairlead.model.errors import BadRequest, Busy, NotFound, RequestRejected, Unavailable
from fairlead.review import formats, working_tree
from fairlead.review.api import WorktreeState, WorktreeView
from fairlead.review.comparison import changed_files
from fairlead.review.private_repository import WORKTREES, GitAccess, GitFailed, PrivateRepository
from fairlead.sessions.api.workspace import NotRepository
from fairlead.system.readable_paths import ReadablePaths, Repository

SCRATCH: Final = "worktrees"
"""In the data folder: the configurations and indexes with which git works on worktrees."""
_EXCLUDED: Final = f"/{WORKTREES}/"
_BRANCH: Final = re.compile(r"(?!-)[^\x00-\x20\x7f~^:?*\[\\]{1,200}")
_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+")
_CHECKOUT_SECONDS: Final = 300.0


class UnsavedWork(RequestRejected, code="unsaved_work", status=409):
    """A worktree that has changes or commits that are nowhere else."""

    def __init__(self, state: WorktreeState) -> None:
        parts = []
        if state.uncommitted:
            parts.append(f"{state.uncommitted} uncommitted file{'s' if state.uncommitted > 1 else ''}")
        if state.unmerged:
            parts.append(f"{state.unmerged} commit{'s' if state.unmerged > 1 else ''} that no other branch has")
        super().__init__(
            f"The worktree of {state.branch} has {' and '.join(parts)}: merge it, or confirm that they are deleted.",
            uncommitted=state.uncommitted,
            unmerged=state.unmerged,
        )


class Worktrees:
    """`scratch` is a folder in the data folder."""

    def __init__(self, paths: ReadablePaths, access: GitAccess, scratch: Path) -> None:
        self._paths = paths
        self._access = access
        self._scratch = scratch
        self._making = asyncio.Lock()

    # --- made, found

    async def open(self, folder: str, branch: str, base: str = "") -> str:
        """Return the folder of the worktree of a branch: the existing one, or a new one. A branch that does not exist
        begins at `base`, or at what is checked out in `folder`."""
        repository, main = await self._main_of(folder)
        await self._check_branch(main, branch)
        async with self._making:
            for known in await self._listed(main):
                if known.branch == branch:
                    return await asyncio.to_thread(self._inside, known.path)
            return await self._make(repository, main, branch, base)

    async def views(self, folder: str) -> tuple[WorktreeView, ...]:
        """The worktrees of a folder's repository that are inside the roots, the main one first."""
        _, main = await self._main_of(folder)
        listed = await self._listed(main)
        return await asyncio.to_thread(self._shown, listed)

    def _shown(self, views: list[WorktreeView]) -> tuple[WorktreeView, ...]:
        return tuple(view for view in views if self._paths.allows(os.path.realpath(view.path)))

    async def _make(self, repository: PrivateRepository, main: PrivateRepository, branch: str, base: str) -> str:
        reference = f"refs/heads/{branch}"
        exists = await main.users_git("rev-parse", "--verify", "--quiet", reference, check=False)
        start = reference if exists else (base or "HEAD")
        found = await repository.users_git(
            "rev-parse", "--verify", "--quiet", "--end-of-options", f"{start}^{{commit}}", check=False
        )
        commit = found.decode().strip()
        if not commit:
            raise NotFound("commit", base) if base else BadRequest("A worktree needs a first commit in its repository.")
        path = os.path.join(main.user.top, WORKTREES, _NAME.sub("-", branch).strip("-.") or "worktree")
        await asyncio.to_thread(_prepare, main.user, path)
        new = () if exists else ("-b", branch)
        named = branch if exists else commit
        await main.users_git("worktree", "add", "--no-checkout", *new, "--", path, named)
        try:
            await self._fill(path, commit)
        except (GitFailed, OSError):
            # Nothing is in it yet: a second try begins anew.
            await main.users_git("worktree", "remove", "--force", "--force", "--", path, check=False)
            if not exists:
                await main.users_git("update-ref", "-d", reference, commit, check=False)
            raise
        return path

    async def _fill(self, path: str, commit: str) -> None:
        """Write the files, by a git that runs no filter."""
        async with self._temporary(path) as made:
            await made.git("read-tree", commit, own_index=False, write=True)
            await made.git("checkout-index", "-a", "-u", "-q", own_index=False, write=True, seconds=_CHECKOUT_SECONDS)

    # --- merged, removed

    async def state(self, folder: str) -> WorktreeState:
        """What would be lost without this worktree, and the branch that it would be merged into."""
        repository, main = await self._main_of(folder)
        if repository.user.git_dir == main.user.git_dir:
            raise BadRequest(f"{folder} is the main folder of its repository, not another worktree.")
        branch = await self._branch(repository)
        changed = await working_tree.index_state(repository)
        unmerged = 0
        if branch:
            words = ("rev-list", "--count", f"refs/heads/{branch}", "--not", f"--exclude={branch}", "--branches")
            unmerged = int(await repository.users_git(*words, "--remotes"))
        return WorktreeState(
            path=repository.user.top,
            main=main.user.top,
            branch=branch,
            into=await self._branch(main),
            uncommitted=len(changed.staged | changed.unstaged | changed.untracked),
            unmerged=unmerged,
        )

    async def merge(self, folder: str) -> str:
        """Merge the worktree's branch into the one that is checked out in the main folder; return the commit. Busy if
        that needs a person or the agent: uncommitted files, conflicts."""
        state = await self.state(folder)
        if not state.branch or not state.into:
            raise BadRequest("Both folders need a branch that is checked out.")
        if state.uncommitted:
            raise Busy(f"Files are not committed in the worktree ({state.uncommitted}): commit or discard them first.")
        _, main = await self._main_of(folder)
        async with self._making:
            ours = await self._commit(main, f"refs/heads/{state.into}")
            theirs = await self._commit(main, f"refs/heads/{state.branch}")
            if (await working_tree.git_state(main)).merging:
                raise Busy("A merge or rebase is under way in the main folder: finish it first.")
            merged = await self._merged(main, ours, theirs, state)
            await self._check_out(main, state.into, ours, merged)
        return merged

    async def remove(self, folder: str, *, force: bool = False) -> WorktreeState:
        """Remove a worktree and its branch. UnsavedWork if something would be lost, unless `force`."""
        state = await self.state(folder)
        if not force and (state.uncommitted or state.unmerged):
            raise UnsavedWork(state)
        _, main = await self._main_of(folder)
        await main.users_git("worktree", "remove", "--force", "--", state.path)
        if state.branch:
            await main.users_git("update-ref", "-d", f"refs/heads/{state.branch}")
        return state

    async def _merged(self, main: PrivateRepository, ours: str, theirs: str, state: WorktreeState) -> str:
        base = (await main.users_git("merge-base", ours, theirs, check=False)).decode().strip()
        if base == theirs:
            return ours
        if base == ours:
            return theirs
        try:
            tree = (await main.git("merge-tree", "--write-tree", ours, theirs, write=True)).decode().split("\n")[0]
        except GitFailed as error:
            text = f"{state.branch} and {state.into} change the same lines: let the agent merge {state.into} first."
            raise Busy(text, git=error.message) from error
        text = f"Merge branch '{state.branch}' into {state.into}"
        return await working_tree.commit_tree(main, tree, (ours, theirs), text)

    async def _check_out(self, main: PrivateRepository, branch: str, ours: str, merged: str) -> None:
        """Move the branch of the main folder and its files. Files that are changed there stay; one that both change
        stops it before anything has moved."""
        if merged == ours:
            return
        changes = await changed_files(main, await self._tree(main, ours), await self._tree(main, merged))
        await working_tree.refuse_filtered(main, [change.path for change in changes])
        words = ("read-tree", "-m", "-u", ours, merged)
        # It fails if a file is changed, which is no fault.
        with contextlib.suppress(GitFailed):
            await main.git("update-index", "-q", "--refresh", own_index=False, write=True)
        try:
            await main.git("read-tree", "-n", *words[1:], own_index=False, write=True)
        except GitFailed as error:
            text = "The main folder has changes to files that the merge changes: commit or discard them first."
            raise Busy(text, git=error.message) from error
        subject = f"merge: {branch}"
        await main.users_git("update-ref", "-m", subject, f"refs/heads/{branch}", merged, ours)
        try:
            await main.git(*words, own_index=False, write=True, seconds=_CHECKOUT_SECONDS)
        except GitFailed:
            await main.users_git("update-ref", "-m", f"undo {subject}", f"refs/heads/{branch}", ours, merged)
            raise

    # --- trust

    def main_folder(self, folder: str) -> str:
        """The main folder of a worktree that its repository has registered; empty for any other folder. A folder that
        only claims to be one, by a `.git` file of its own, is not."""
        found = self._paths.find_repository(folder)
        if found is None or found.git_dir == found.common_dir or os.path.basename(found.common_dir) != ".git":
            return ""
        try:
            back = Path(found.git_dir, "gitdir").read_text(errors="surrogateescape").strip()
        except OSError:
            return ""
        registered = os.path.dirname(found.git_dir) == os.path.join(found.common_dir, "worktrees")
        return os.path.dirname(found.common_dir) if registered and back == os.path.join(found.top, ".git") else ""

    # --- the rest

    async def _main_of(self, folder: str) -> tuple[PrivateRepository, PrivateRepository]:
        """The repository of a folder, and the one of its main folder."""
        found = await asyncio.to_thread(self._paths.find_repository, folder)
        if found is None:
            raise NotRepository
        top = os.path.dirname(found.common_dir)
        main = await asyncio.to_thread(self._paths.find_repository, top)
        if main is None or main.git_dir != found.common_dir or main.top != top:
            raise BadRequest("The main folder of this repository is not inside the roots, or it is a bare repository.")
        await asyncio.to_thread(self._scratch.mkdir, 0o700, True, True)
        made = [PrivateRepository(self._scratch / _key(one), one, self._access) for one in (found, main)]
        for repository in made:
            await repository.create()
        return made[0], made[1]

    def _temporary(self, path: str) -> "_Temporary":
        return _Temporary(self._paths.find_repository, path, self._scratch, self._access)

    async def _listed(self, main: PrivateRepository) -> list[WorktreeView]:
        output = await main.users_git("worktree", "list", "--porcelain", "-z")
        return [
            WorktreeView(path=path, head=head, branch=branch, main=number == 0)
            for number, (path, head, branch) in enumerate(formats.worktrees(output))
        ]

    async def _check_branch(self, main: PrivateRepository, branch: str) -> None:
        name = f"refs/heads/{branch}"
        normal = await main.users_git("check-ref-format", "--normalize", name, check=False)
        if not _BRANCH.fullmatch(branch) or normal.decode(errors="replace").strip() != name:
            raise BadRequest(f"{branch[:80]!r} is not a name for a branch.", branch=branch[:80])

    def _inside(self, path: str) -> str:
        real = os.path.realpath(path)
        if not self._paths.allows(real) or not os.path.isdir(real):
            raise BadRequest(f"The branch is checked out in {path}, which is outside the roots or gone.", path=path)
        return real

    async def _branch(self, repository: PrivateRepository) -> str:
        name = await repository.users_git("symbolic-ref", "--quiet", "HEAD", check=False)
        return name.decode(errors="replace").strip().removeprefix("refs/heads/")

    async def _commit(self, repository: PrivateRepository, reference: str) -> str:
        return (await repository.users_git("rev-parse", "--verify", f"{reference}^{{commit}}")).decode().strip()

    async def _tree(self, repository: PrivateRepository, commit: str) -> str:
        return (await repository.users_git("rev-parse", "--verify", f"{commit}^{{tree}}")).decode().strip()


class _Temporary:
    """A private repository for a worktree that was just made, deleted afterwards."""

    def __init__(self, find: Callable[[str], Repository | None], path: str, scratch: Path, access: GitAccess) -> None:
        self._find = find
        self._path = path
        self._folder = scratch / uuid.uuid4().hex
        self._access = access

    async def __aenter__(self) -> PrivateRepository:
        found = await asyncio.to_thread(self._find, self._path)
        if found is None:
            raise Unavailable(f"{self._path} is not a worktree any more.")
        made = PrivateRepository(self._folder, found, self._access)
        await made.create()
        return made

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)


def _key(repository: Repository) -> str:
    return f"worktree-{uuid.uuid5(uuid.NAMESPACE_URL, repository.top).hex}"


def _prepare(user: Repository, path: str) -> None:
    """Check that the place is free, and let git ignore the folder of worktrees, in this clone only."""
    if os.path.lexists(path) and (os.path.islink(path) or not os.path.isdir(path) or os.listdir(path)):
        raise BadRequest(f"{path} is there already: choose another branch, or remove it.", path=path)
    parent = os.path.dirname(path)
    if os.path.islink(parent):
        raise BadRequest(f"{parent} is a symbolic link: worktrees are made in a folder.", path=parent)
    os.makedirs(parent, exist_ok=True)
    exclude = Path(user.common_dir, "info", "exclude")
    lines = exclude.read_text(errors="surrogateescape").splitlines() if exclude.is_file() else []
    if _EXCLUDED not in lines:
        exclude.parent.mkdir(exist_ok=True)
        exclude.write_text("\n".join([*lines, _EXCLUDED, ""]), errors="surrogateescape")
