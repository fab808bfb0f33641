# SPDX-License-Identifier: MIT
"""scikit-learn's own tests of its neighbours, LocalOutlierFactor, DBSCAN and pipelines, run on ours.

A test has its name in scikit-learn, with a short name of its module in front.
"""

from __future__ import annotations

import importlib.util
import types
import warnings
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

import sklearn.cluster
import sklearn.neighbors

import adjoin.sklearn

# scikit-learn's tests raise many warnings that have nothing to do with this package.
pytestmark = pytest.mark.filterwarnings("ignore")

MODULES = {
    "neighbors": "sklearn.neighbors.tests.test_neighbors",
    "lof": "sklearn.neighbors.tests.test_lof",
    "graph": "sklearn.neighbors.tests.test_graph",
    "pipeline": "sklearn.neighbors.tests.test_neighbors_pipeline",
    "dbscan": "sklearn.cluster.tests.test_dbscan",
}
# The reasons why tests are expected to fail, by the beginning of their names. See conftest.py.
EXPECTED_FAILURES = {
    "test_neighbors_k_and_radius_neighbors_duplicates": "ties go to the lower index, also of three equal points",
}
# All metrics without a join take the same way to scikit-learn, so three of them are enough. These are left out.
ALIKE = "correlation dice hamming jaccard rogerstanimoto russellrao sokalsneath yule".split()
# Tests that take long and have little to do with this package. See conftest.py.
LEFT_OUT = {"test_pipeline_tsne"} | {
    f"test_neighbors_radius_neighbors_brute_backend[{kind}-{metric}]" for kind in ("float32", "float64") for metric in ALIKE
}
OURS = {name: getattr(adjoin.sklearn, name) for name in adjoin.sklearn.__all__}


@pytest.fixture
def global_random_seed() -> int:
    return 42


@pytest.fixture(params=[np.float32, np.float64])
def global_dtype(request: Any) -> Any:
    return request.param


def _with_ours(module: types.ModuleType) -> types.ModuleType:
    """A copy of a package of scikit-learn that has our classes."""
    copy = types.ModuleType(module.__name__)
    vars(copy).update(vars(module))
    vars(copy).update({name: value for name, value in OURS.items() if hasattr(module, name)})
    return copy


def _load(name: str) -> dict[str, Any]:
    """The tests of a module, imported while scikit-learn's packages have our classes."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        return {}
    module = importlib.util.module_from_spec(spec)
    packages = (sklearn.neighbors, sklearn.cluster)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for package in packages:
            for ours, value in OURS.items():
                if hasattr(package, ours):
                    patch.setattr(package, ours, value)
        spec.loader.exec_module(module)
    for package in packages:
        for known, value in list(vars(module).items()):
            if value is package:
                setattr(module, known, _with_ours(package))
    return {known: value for known, value in vars(module).items() if known.startswith("test_")}


for _short, _module in MODULES.items():
    for _name, _test in _load(_module).items():
        globals()[f"test_{_short}_{_name.removeprefix('test_')}"] = _test


def test_they_are_here() -> None:
    """scikit-learn was installed with its tests, and they use our classes."""
    if importlib.util.find_spec(MODULES["neighbors"]) is None:
        pytest.skip("scikit-learn was installed without its tests")
    test = globals()["test_neighbors_unsupervised_inputs"]
    assert test.__globals__["neighbors"].NearestNeighbors is adjoin.sklearn.NearestNeighbors
