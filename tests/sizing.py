"""The number of examples of expensive property tests: few in `make test`, many in `make test-long`."""

from hypothesis import settings

LONG = "long"
"""The hypothesis profile that `make test-long` selects."""


def examples(few: int, many: int) -> settings:
    return settings(max_examples=many if settings.get_current_profile_name() == LONG else few)
