"""A bounded dictionary keeps its newest entries."""

from fairlead.model.formats.bounded_tables import keep_newest


def test_a_key_that_is_stored_again_is_the_newest_and_the_oldest_is_dropped() -> None:
    kept: dict[str, int] = {}
    for key, value in (("a", 1), ("b", 2), ("a", 3), ("c", 4)):
        keep_newest(kept, key, value, 2)
    assert list(kept.items()) == [("a", 3), ("c", 4)]
