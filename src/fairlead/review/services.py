"""The services of this room."""

from typing import Final

from fairlead.review.service import ReviewService, ReviewTools
from fairlead.review.snapshots import Snapshots
from fairlead.review.worktree_service import WorktreeService
from fairlead.review.worktrees import Worktrees
from fairlead.system.readable_paths import ReadablePaths
from fairlead.system.services import Service, ServiceContext, ServiceFactory


def review(context: ServiceContext) -> Service:
    made = ReviewService(
        context.get(Snapshots),
        context.gateway,
        context.store,
        context.get(ReadablePaths),
        context.get(ReviewTools).of_agent,
    )
    return Service(handlers=made.handlers(), start=made.start, stop=made.stop)


def worktrees(context: ServiceContext) -> Service:
    made = WorktreeService(context.get(Worktrees), context.gateway, context.store, context.resolve_folder)
    return Service(handlers=made.handlers(), stop=made.stop)


SERVICES: Final[tuple[ServiceFactory, ...]] = (review, worktrees)
