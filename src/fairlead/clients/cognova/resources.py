"""The REST routes of all resources."""

from typing import Final

from fairlead.clients.cognova import keeping, scheduled, tasks, webhooks_and_push

ROUTES: Final = (*tasks.ROUTES, *keeping.ROUTES, *scheduled.ROUTES, *webhooks_and_push.ROUTES)
