"""The REST calls for all resources, joined."""

from typing import Final

from fairlead.clients.cognova import keeping, scheduled, targets, tasks

ROUTES: Final = (*tasks.ROUTES, *keeping.ROUTES, *scheduled.ROUTES, *targets.ROUTES)
