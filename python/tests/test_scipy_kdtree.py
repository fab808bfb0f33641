# SPDX-License-Identifier: MIT
"""SciPy's own tests of its trees, run on ours.

No test is expected to fail. Some look at the nodes of a tree, which come from SciPy.
"""

from __future__ import annotations

import importlib.util
import warnings
from typing import Any

import pytest

import adjoin

spatial = pytest.importorskip("scipy.spatial")
spec = importlib.util.find_spec("scipy.spatial.tests.test_kdtree")
if spec is None or spec.loader is None:
    pytest.skip("SciPy was installed without its tests", allow_module_level=True)

# The reasons why tests are expected to fail, by name.
EXPECTED_FAILURES: dict[str, str] = {}


def _load() -> dict[str, Any]:
    """The names of SciPy's test module, imported while `scipy.spatial` has our trees."""
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", pytest.PytestUnknownMarkWarning)  # SciPy has its own marks
        patch.setattr(spatial, "KDTree", adjoin.KDTree)
        patch.setattr(spatial, "cKDTree", adjoin.cKDTree)
        spec.loader.exec_module(module)
    assert module.KDTree is adjoin.KDTree and module.cKDTree is adjoin.cKDTree
    return {name: value for name, value in vars(module).items() if not name.startswith("__")}


globals().update(_load())
for _name, _reason in EXPECTED_FAILURES.items():
    globals()[_name] = pytest.mark.xfail(reason=_reason, strict=True)(globals()[_name])
