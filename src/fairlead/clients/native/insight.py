"""REST for usage statistics: by day, project and model, by tool, and the agent's limits."""

import re
from typing import Final

from fairlead.model import queries as q
from fairlead.model.errors import BadRequest
from fairlead.model.usage_stats import UsageStats
from fairlead.model.web.routes import Param, Request, Routes, Steps, json_response

routes = Routes()
DAY_MS: Final = 86_400_000
LONGEST: Final = 366
"""The maximum number of days in one response: each day has a row for each project and model."""
_LAST: Final = 10**15
_FURTHEST: Final = 14 * 60
"""Minutes: no time zone is further ahead of UTC or behind it."""
_OFFSET: Final = re.compile(r"-?[0-9]{1,3}")


@routes.get(
    "/v1/insight",
    "view",
    "insight",
    answer=UsageStats,
    query=(
        Param("since", int, "The start, in milliseconds since 1970.", required=True),
        Param("until", int, f"The end, at most {LONGEST} days later.", required=True),
        Param("offset", int, "Minutes by which your clock is ahead of UTC (negative: behind). It defines the days."),
    ),
)
def usage_stats(request: Request) -> Steps:
    """Tokens, cost and turns by day, project and model; use of tools; the agent's limits."""
    since = request.query_int("since", 0, 0, _LAST)
    until = request.query_int("until", 0, 0, _LAST)
    if not since < until <= since + LONGEST * DAY_MS:
        raise BadRequest(f"since and until are times in milliseconds, at most {LONGEST} days apart.", field="until")
    offset = request.query.get("offset", "0")
    if _OFFSET.fullmatch(offset) is None or abs(int(offset)) > _FURTHEST:
        raise BadRequest(f"offset must be a whole number from -{_FURTHEST} to {_FURTHEST}.", field="offset")
    return json_response((yield q.ReadUsageStats(since, until, int(offset))))
