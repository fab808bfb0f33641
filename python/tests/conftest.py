# SPDX-License-Identifier: MIT
"""What tests share: hypothesis without deadlines, because machines are busy; tests of others that are expected to fail."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "adjoin", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.load_profile("adjoin")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """EXPECTED_FAILURES of a module: why tests fail, by how their names begin, with their parameters."""
    for item in items:
        for begin, reason in getattr(getattr(item, "module", None), "EXPECTED_FAILURES", {}).items():
            if item.name.startswith(begin):
                item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
