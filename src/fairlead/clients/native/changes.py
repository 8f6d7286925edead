"""REST for the review of a session's changes: the list, the diff of a file, git's index, commit and discard; and for
worktrees."""

from typing import Final, Literal

import msgspec

from fairlead.model.errors import BadRequest
from fairlead.model.web.requests import do
from fairlead.model.web.routes import Param, Request, Routes, Steps, json_response
from fairlead.review import api

routes = Routes()
PATH: Final = "/v1/sessions/{session}/changes"
BODY: Final = 1 << 20
_LAST: Final = 10**9


class FileKeys(msgspec.Struct, frozen=True):
    """`files` are keys from the list of changes."""

    files: tuple[str, ...]


class StageBody(FileKeys, frozen=True):
    """`staged` false takes the files out of the next commit."""

    staged: bool = True


class CommitBody(msgspec.Struct, frozen=True):
    message: str


class RestoreBody(FileKeys, frozen=True):
    """`tree` is the answer's to a discard."""

    tree: str


class CloseBody(msgspec.Struct, frozen=True):
    """`how`: `keep` (only report), `merge` or `discard`. `force`: discard although work is lost."""

    how: Literal["keep", "merge", "discard"] = "keep"
    force: bool = False


class WorktreeList(msgspec.Struct, frozen=True):
    worktrees: tuple[api.WorktreeView, ...]


class StagedCount(msgspec.Struct, frozen=True):
    staged: int


class RestoredCount(msgspec.Struct, frozen=True):
    files: int


@routes.get(
    PATH,
    "view",
    "changes.list",
    answer=api.ChangeList,
    query=(
        Param("base", str, "session (the default: since it began), commit (since the last commit) or a turn's id."),
        Param("start", int, "`next` of the previous page."),
        Param("limit", int, f"At most this many files, up to {api.PAGE_FILES}."),
        Param("before", str, "`before` of the first page, for the following ones."),
        Param("after", str, "`after` of the first page, for the following ones."),
    ),
)
def list_changes(request: Request) -> Steps:
    """The files that a session has changed, page by page."""
    given = request.query
    call = api.ListChanges(
        session=request.session,
        base=given.get("base", "session"),
        before=given.get("before", ""),
        after=given.get("after", ""),
        start=request.query_int("start", 0, 0, _LAST),
        limit=request.query_int("limit", api.PAGE_FILES, 1, api.PAGE_FILES),
    )
    return json_response((yield from do(call)))


@routes.get(
    f"{PATH}/file",
    "view",
    "changes.file",
    answer=api.FileDiff,
    query=(
        Param("key", str, "The file's key in the list.", required=True),
        Param("old_key", str, "The key of a renamed file's old path."),
        Param("before", str, "`before` of the list; empty for changes from the log."),
        Param("after", str, "`after` of the list; empty for changes from the log."),
        Param("context", int, f"Unchanged lines around each change: {api.CONTEXT}, up to {api.MOST_CONTEXT}."),
        Param("columns", int, "1 (the default): `rows`; 2: `pairs`, old and new side by side."),
        Param("start", int, "The position of the first row."),
        Param("limit", int, f"At most this many rows, up to {api.PAGE_ROWS}."),
    ),
)
def read_file(request: Request) -> Steps:
    """The diff of one file, row by row."""
    session, given = request.session, request.query
    if not given.get("key"):
        raise BadRequest("key must name a file of the list.", field="key")
    call = api.ReadFileDiff(
        session=session,
        before=given.get("before", ""),
        after=given.get("after", ""),
        key=given["key"],
        old_key=given.get("old_key", ""),
        context=request.query_int("context", api.CONTEXT, 0, api.MOST_CONTEXT),
        columns=2 if request.query_int("columns", 1, 1, 2) == 2 else 1,
        start=request.query_int("start", 0, 0, _LAST),
        limit=request.query_int("limit", api.PAGE_ROWS, 1, api.PAGE_ROWS),
    )
    return json_response((yield from do(call)))


@routes.post(f"{PATH}/stage", "approve", "changes.stage", body=StageBody, answer=StagedCount, body_limit=BODY)
def stage(request: Request) -> Steps:
    """Put files into git's index, or take them out of it."""
    session, body = request.session, request.json(StageBody)
    staged = yield from do(api.StageFiles(session=session, keys=body.files, staged=body.staged))
    return json_response(StagedCount(staged))


@routes.post(f"{PATH}/commit", "approve", "changes.commit", body=CommitBody, answer=api.CommitMade, body_limit=BODY)
def commit(request: Request) -> Steps:
    """Commit what is staged. No hook runs, and the commit is not signed."""
    session, body = request.session, request.json(CommitBody)
    return json_response((yield from do(api.CommitStaged(session=session, message=body.message))))


@routes.post(f"{PATH}/discard", "approve", "changes.discard", body=FileKeys, answer=api.Discarded, body_limit=BODY)
def discard(request: Request) -> Steps:
    """Make files as in the last commit. The answer names a snapshot from which they can be restored."""
    session, body = request.session, request.json(FileKeys)
    return json_response((yield from do(api.DiscardFiles(session=session, keys=body.files))))


@routes.post(f"{PATH}/restore", "approve", "changes.restore", body=RestoreBody, answer=RestoredCount, body_limit=BODY)
def restore(request: Request) -> Steps:
    """Undo a discard: make files as they were in a snapshot."""
    session, body = request.session, request.json(RestoreBody)
    call = api.RestoreFiles(session=session, tree=body.tree, keys=body.files)
    return json_response(RestoredCount((yield from do(call))))


@routes.get(
    "/v1/worktrees",
    "view",
    "worktrees.list",
    answer=WorktreeList,
    query=(Param("folder", str, "A folder of the repository; empty: the first root."),),
)
def list_worktrees(request: Request) -> Steps:
    """The worktrees of a repository, the main folder first, with the sessions that work in each."""
    found = yield from do(api.ListWorktrees(request.query.get("folder", "")))
    return json_response(WorktreeList(found))


@routes.post("/v1/sessions/{session}/worktree", "view", "worktrees.close", body=CloseBody, answer=api.WorktreeClosed)
def close_worktree(request: Request) -> Steps:
    """Report what is only in the session's worktree, merge its branch, or remove both; changing needs approve."""
    session, body = request.session, request.json(CloseBody)
    closed = yield from do(api.CloseWorktree(session=session, how=body.how, force=body.force))
    return json_response(closed)
