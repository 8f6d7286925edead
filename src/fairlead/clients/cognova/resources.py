"""The REST calls for all resources, joined."""

from typing import Final

from fairlead.clients.cognova import keeping, scheduled, tasks

ROUTES: Final = (*tasks.ROUTES, *keeping.ROUTES, *scheduled.ROUTES)
