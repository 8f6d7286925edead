"""The suite's asserts explain themselves like those of any test; this must be said before anybody imports it."""

import pytest

pytest.register_assert_rewrite("fairlead.testing.store_conformance", "fairlead.testing.derived_conformance")
