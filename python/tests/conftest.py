# SPDX-License-Identifier: MIT
"""Settings of all tests: hypothesis has no deadlines, and modules may list tests that fail or are left out."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "adjoin", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.load_profile("adjoin")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Applies two lists of a test module, in which names include parameters.

    EXPECTED_FAILURES maps the beginning of a test's name to the reason why it fails. LEFT_OUT holds the names of tests
    that are not run.
    """
    for item in items:
        for begin, reason in getattr(getattr(item, "module", None), "EXPECTED_FAILURES", {}).items():
            if item.name.startswith(begin):
                item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
    left_out = {item for item in items if item.name in getattr(getattr(item, "module", None), "LEFT_OUT", ())}
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]
