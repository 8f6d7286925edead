"""How many examples the costly laws get: few in `make test`, many in `make test-long`."""

from hypothesis import settings

LONG = "long"
"""The profile of hypothesis that `make test-long` names."""


def examples(few: int, many: int) -> settings:
    return settings(max_examples=many if settings.get_current_profile_name() == LONG else few)
