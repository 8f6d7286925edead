"""Due times of cron expressions. Pure; times are UTC, in milliseconds since 1970."""

from datetime import UTC, datetime

from cronsim import CronSim, CronSimError

from fairlead.model.errors import BadRequest

LONGEST = 200
"""Maximum characters of an expression: more than any real one has, and quick to parse."""


def next_due(expression: str, after: int) -> int:
    """Raises BadRequest for an invalid schedule, or one that is never due."""
    if len(expression) > LONGEST or len(expression.split()) != 5:
        raise _bad(expression, "five fields are expected: minute, hour, day, month, weekday")
    try:
        found = next(CronSim(expression, datetime.fromtimestamp(after / 1000, UTC)))
    except CronSimError as error:
        raise _bad(expression, str(error)) from None
    except StopIteration:
        raise _bad(expression, "it is never due") from None
    return int(found.timestamp() * 1000)


def _bad(expression: str, why: str) -> BadRequest:
    return BadRequest(f"Invalid schedule {expression[:80]!r}: {why}.", schedule=expression[:80])
