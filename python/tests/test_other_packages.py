# SPDX-License-Identifier: MIT
"""Packages that accept neighbours from outside: UMAP, hdbscan, scanpy. With ours they have the same results.

UMAP and scanpy run in a new process without numba's compiler, which would take longer than the compiled code saves.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import adjoin

BLOBS = np.concatenate([np.random.default_rng(i).normal(3 * i, 1, (40, 3)) for i in range(3)]).astype(np.float32)


def run(text: str) -> None:
    """Runs a script in which `x` holds the points."""
    head = f"""
        import numpy as np
        import adjoin
        x = np.frombuffer(bytes.fromhex({BLOBS.tobytes().hex()!r}), np.float32).reshape(-1, 3)
        """
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "MPLBACKEND": "agg"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(head) + textwrap.dedent(text)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stdout) == (0, "same\n"), done.stderr


def needs(*packages: str) -> pytest.MarkDecorator:
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)}: not installed")


@needs("umap")
def test_umap() -> None:
    run(
        """
        import umap
        distances, indices = adjoin.knn_join(x, k=10, include_self=True)
        settings = dict(n_neighbors=10, n_epochs=4, init="random", random_state=1, n_jobs=1)
        ours = umap.UMAP(precomputed_knn=(indices, distances), **settings).fit(x)
        theirs = umap.UMAP(**settings).fit(x)
        assert ours.graph_.nnz > 600 and abs(ours.graph_ - theirs.graph_).max() < 1e-4
        assert ours.embedding_.shape == (120, 2)
        print("same")
        """
    )


@needs("scanpy", "adjoin.sklearn")
def test_scanpy() -> None:
    run(
        """
        import anndata, scanpy
        import adjoin.sklearn, sklearn.neighbors
        found = []
        for package in (adjoin.sklearn, sklearn.neighbors):
            cells, transformer = anndata.AnnData(x), package.KNeighborsTransformer(n_neighbors=11)
            scanpy.pp.neighbors(cells, n_neighbors=12, use_rep="X", method="gauss", transformer=transformer)
            found.append(cells.obsp)
        for name in ("distances", "connectivities"):
            assert found[0][name].nnz > 600 and abs(found[0][name] - found[1][name]).max() < 1e-5, name
        print("same")
        """
    )


@needs("hdbscan")
@pytest.mark.filterwarnings("ignore")
def test_hdbscan() -> None:
    """Distances up to a radius longer than all edges that matter give the same clusters as all distances."""
    import hdbscan

    graph = adjoin.range_join(BLOBS.astype(np.float64), radius=4.0, distances=True).to_scipy()
    assert 1000 < graph.nnz < 120 * 119
    settings = {"min_cluster_size": 10, "min_samples": 5}
    ours = hdbscan.HDBSCAN(metric="precomputed", **settings).fit(graph)
    theirs = hdbscan.HDBSCAN(metric="euclidean", algorithm="generic", **settings).fit(BLOBS.astype(np.float64))
    assert len(set(theirs.labels_)) > 2
    assert np.array_equal(ours.labels_, theirs.labels_)
    np.testing.assert_allclose(ours.probabilities_, theirs.probabilities_, atol=1e-12)
