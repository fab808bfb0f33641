# SPDX-License-Identifier: MIT
"""Joins of Dask collections against the same join in one process: whole results must be equal bit for bit."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import numpy as np
import pytest

pytest.importorskip("dask.array")
pytestmark = pytest.mark.filterwarnings("default")

import dask  # noqa: E402
import dask.array as da  # noqa: E402

import adjoin  # noqa: E402
import adjoin.dask as ours  # noqa: E402

METHODS = ["regions", "blocks"]


def lattice(seed: int, n: int, dim: int, kind: Any = np.float64) -> Any:
    """Points with many ties, and copies."""
    return (np.random.default_rng(seed).integers(0, 9, (n, dim)) / 4).astype(kind)


def cloud(seed: int, n: int, dim: int, kind: Any = np.float64) -> Any:
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(n, dim)) * rng.random((n, 1))).astype(kind)


def parts(x: Any, chunks: Any = 83) -> Any:
    return da.from_array(x, chunks=(chunks, -1))


@pytest.fixture(autouse=True)
def in_this_thread() -> Any:
    with dask.config.set(scheduler="synchronous"):
        yield


def assert_rows(found: Any, expected: Any) -> None:
    assert found.shape == expected.shape
    assert np.array_equal(found.indptr, expected.indptr)
    assert found.indices.dtype == np.int64 and np.array_equal(found.indices, expected.indices)
    if expected.distances is None:
        assert found.distances is None
    else:
        assert found.distances.dtype == expected.distances.dtype
        assert np.array_equal(found.distances, expected.distances)


def assert_nearest(found: Any, expected: Any) -> None:
    distances, ids = dask.compute(*found)
    assert distances.dtype == expected[0].dtype and np.array_equal(distances, expected[0])
    assert ids.dtype == np.int64 and np.array_equal(ids, expected[1])


OPTIONS: list[Any] = [
    {},
    {"metric": "manhattan"},
    {"metric": "chebyshev"},
    {"p": 3},
    {"box": 2.5},
    {"metric": "cosine"},
    {"dtype": "f32"},
    {"backend": "reference"},
]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "options, two", [(o, two) for o in OPTIONS for two in (False, True) if not two or o in ({}, {"box": 2.5})], ids=str
)
def test_joins(method: Any, options: Any, two: bool) -> None:
    a = lattice(1, 300, 3) if "box" in options else cloud(1, 300, 3)
    b = (lattice(2, 410, 3) if "box" in options else cloud(2, 410, 3)) if two else None
    left, right = parts(a, 110), None if b is None else parts(b, (200, 10, 200))
    for order in ("id", "distance"):
        expected = adjoin.range_join(a, b, radius=0.25, distances=True, order=order, **options)
        asked = {"radius": 0.25, "distances": True, "order": order, "method": method, **options}
        assert_rows(ours.range_join(left, right, **asked).compute(), expected)
    counts = ours.count(left, right, radius=0.25, method=method, **options)
    assert np.array_equal(counts.compute(), adjoin.count(a, b, radius=0.25, **options))
    for k, radius in ((7, None), (5, 0.2)):
        found = ours.knn_join(left, right, k=k, radius=radius, method=method, **options)
        assert_nearest(found, adjoin.knn_join(a, b, k=k, radius=radius, **options))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int32])
def test_ties_and_itself(method: Any, kind: Any) -> None:
    a = (4 * lattice(3, 500, 2)).astype(kind)
    expected = adjoin.range_join(a, radius=2, include_self=True)
    assert_rows(ours.range_join(parts(a), radius=2, include_self=True, method=method).compute(), expected)
    for itself in (False, True):
        found = ours.knn_join(parts(a), k=9, include_self=itself, method=method)
        assert_nearest(found, adjoin.knn_join(a, k=9, include_self=itself))
        total = ours.count(parts(a), radius=2, include_self=itself, method=method, total=True)
        assert int(total) == adjoin.count(a, radius=2, include_self=itself, total=True)
    copies = np.ones((300, 2), kind)
    assert_nearest(ours.knn_join(parts(copies), k=3, method=method), adjoin.knn_join(copies, k=3))


@pytest.mark.parametrize("dim", [1, 2, 6, 7, 40])
def test_dimensions(dim: int) -> None:
    a, b = cloud(4, 260, dim, np.float32), cloud(5, 150, dim, np.float32)
    radius = 0.3 * np.sqrt(dim)
    rows = ours.range_join(parts(a), parts(b), radius=radius, distances=True)
    assert_rows(rows.compute(), adjoin.range_join(a, b, radius=radius, distances=True))
    assert_nearest(ours.knn_join(parts(a), parts(b), k=4), adjoin.knn_join(a, b, k=4))
    assert_nearest(ours.knn_join(parts(a), k=4), adjoin.knn_join(a, k=4))


@pytest.mark.parametrize("method", METHODS)
def test_the_sphere(method: Any) -> None:
    rng = np.random.default_rng(6)
    a = np.column_stack([rng.uniform(-180, 180, 400), np.degrees(np.arcsin(rng.uniform(-1, 1, 400)))])
    options: Any = {"metric": "haversine", "unit": "degrees", "method": method}
    plain: Any = {"metric": "haversine", "unit": "degrees"}
    rows = ours.range_join(parts(a), radius=9.0, distances=True, **options)
    assert_rows(rows.compute(), adjoin.range_join(a, radius=9.0, distances=True, **plain))
    assert_nearest(ours.knn_join(parts(a), k=5, **options), adjoin.knn_join(a, k=5, **plain))


def test_inner_products() -> None:
    a, b = cloud(7, 200, 4), cloud(8, 330, 4)
    rows = ours.range_join(parts(a), parts(b), radius=0.4, metric="dot", distances=True)
    assert_rows(rows.compute(), adjoin.range_join(a, b, radius=0.4, metric="dot", distances=True))
    assert_nearest(ours.knn_join(parts(a), parts(b), k=6, metric="dot"), adjoin.knn_join(a, b, k=6, metric="dot"))
    with pytest.raises(adjoin.ArgumentError, match="inner products"):
        ours.knn_join(parts(a), k=1, metric="dot", method="regions")


@pytest.mark.parametrize("method", METHODS)
def test_few_points(method: Any) -> None:
    """Empty partitions, empty sets, and more neighbours than there are points."""
    a = lattice(9, 5, 2)
    for chunks in ((5,), (0, 5), (2, 0, 3), (1, 1, 1, 1, 1)):
        left = da.concatenate([da.from_array(x, chunks=x.shape) for x in np.split(a, np.cumsum(chunks)[:-1])])
        assert_rows(ours.range_join(left, radius=1, method=method).compute(), adjoin.range_join(a, radius=1))
        assert_nearest(ours.knn_join(left, k=8, method=method), adjoin.knn_join(a, k=8))
        assert_nearest(ours.knn_join(left, left[:1], k=2, method=method), adjoin.knn_join(a, a[:1], k=2))
    none = parts(a[:0], 1)
    assert ours.range_join(none, radius=1, method=method).compute().shape == (0, 0)
    assert ours.count(parts(a), none, radius=1, method=method).compute().tolist() == 5 * [0]
    assert ours.count(none, parts(a), radius=1, method=method).compute().tolist() == []
    assert_nearest(ours.knn_join(parts(a), none, k=2, method=method), adjoin.knn_join(a, a[:0], k=2))


def test_frames_and_unknown_chunks() -> None:
    pandas = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    a = cloud(10, 300, 3)
    table = pandas.DataFrame(a, columns=["x", "y", "z"])
    table["name"] = "n"
    frame = dd.from_pandas(table, npartitions=4)
    expected = adjoin.range_join(a[:, [2, 0]], radius=0.1, distances=True)
    rows = ours.range_join(frame, radius=0.1, distances=True, columns=["z", "x"])
    assert_rows(rows.compute(), expected)
    pairs = rows.to_dataframe()
    assert list(pairs.columns) == ["row", "column", "distance"]
    computed = pairs.compute()
    assert np.array_equal(computed["row"], expected.to_coo().rows)
    assert np.array_equal(computed["column"], expected.indices)
    assert np.array_equal(computed["distance"], expected.distances)
    assert [part.compute().first_row for part in rows.to_delayed()] == [0, 75, 150, 225]
    assert_rows(rows.persist().compute(), expected)
    assert_nearest(ours.knn_join(frame, k=3, columns=["x", "y", "z"]), adjoin.knn_join(a, k=3))
    some = parts(a)[parts(a)[:, 0] > 0]
    assert_nearest(ours.knn_join(some, some, k=3), adjoin.knn_join(a[a[:, 0] > 0], a[a[:, 0] > 0], k=3))
    line = da.from_array(a[:, 0].copy(), chunks=100)
    assert_nearest(ours.knn_join(line, k=2), adjoin.knn_join(a[:, 0], k=2))
    columns = da.from_array(a, chunks=(100, 1))
    assert_nearest(ours.knn_join(columns, k=2), adjoin.knn_join(a, k=2))


def test_results_are_lazy() -> None:
    def fail(block: Any) -> Any:
        raise AssertionError("computed too early")

    a = parts(cloud(11, 300, 2)).map_blocks(fail, dtype=np.float64, meta=np.empty((0, 2)))
    distances, ids = ours.knn_join(a, k=3)
    assert distances.shape == ids.shape == (300, 3) and distances.chunks[0] == (83, 83, 83, 51)
    assert ours.count(a, radius=1).shape == (300,)
    with pytest.raises(AssertionError, match="too early"):
        ids.compute()


def test_wrong_arguments() -> None:
    a = parts(cloud(12, 100, 2))
    with pytest.raises(adjoin.ArrayTypeError, match="ndarray is neither"):
        ours.count(cloud(12, 10, 2), radius=1)
    with pytest.raises(adjoin.ArgumentError, match="2 dimensions and b has 3"):
        ours.count(a, parts(cloud(12, 10, 3)), radius=1)
    with pytest.raises(adjoin.ArgumentError, match="one radius"):
        ours.count(a, radius=[1, 2])
    with pytest.raises(adjoin.ArgumentError, match="columns: a is not a table"):
        ours.count(a, radius=1, columns=["x", "y"])
    with pytest.raises(TypeError, match="progress"):
        ours.count(a, radius=1, progress=True)
    with pytest.raises(adjoin.ArgumentError, match="method: 'magic'"):
        ours.count(a, radius=1, method="magic")  # type: ignore[arg-type]
    with pytest.raises(adjoin.ArgumentError, match="metric"):
        ours.count(a, radius=1, metric="none")
    wrong = cloud(12, 100, 2)
    wrong[90, 1] = np.nan
    for method in METHODS:
        with pytest.raises(adjoin.DataError, match="partition 1 of a: .*row 7"):
            ours.count(parts(wrong), radius=1, method=method).compute()  # type: ignore[arg-type]


def wait_for(block: Any, block_info: Any, file: str) -> Any:
    """Delays the last block of an array until a file exists."""
    last = block_info[0]["num-chunks"][0] - 1
    while block_info[0]["chunk-location"][0] == last and not os.path.exists(file):
        time.sleep(0.02)
    return block


def kill_a_worker(client: Any, step: str, count: int, result: Any) -> None:
    """Kills a worker that holds results of a step, once there are `count` results."""

    def holders(dask_scheduler: Any) -> list[tuple[str, int]]:
        done = [task for key, task in dask_scheduler.tasks.items() if step in str(key) and task.state == "memory"]
        return [(worker.address, worker.pid) for task in done for worker in task.who_has]

    deadline = time.monotonic() + 60
    while len(found := client.run_on_scheduler(holders)) < count:
        assert time.monotonic() < deadline and not any(future.done() for future in result)
        time.sleep(0.05)
    address, _ = found[0]
    pid = client.run(os.getpid, workers=[address])[address]
    os.kill(pid, signal.SIGKILL)


def test_a_cluster_that_loses_a_worker(tmp_path: Any) -> None:
    distributed = pytest.importorskip("distributed")
    a, b = cloud(13, 4000, 3), cloud(14, 3000, 3)
    quiet = {"distributed.worker.daemon": True, "distributed.logging": {"distributed": "critical"}}
    soon = {"distributed.comm.timeouts.connect": "5s"}  # so that nobody waits long for the killed worker
    with (
        dask.config.set({**quiet, **soon, "scheduler": None}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=4, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        gate = str(tmp_path / "gate")
        late = parts(b, 1000).map_blocks(wait_for, file=gate, dtype=b.dtype, meta=b[:0])
        left = parts(a, 1000)
        rows = ours.range_join(left, late, radius=0.1, distances=True)
        distances, ids = ours.knn_join(left, late, k=5)
        result = client.compute([*rows.to_delayed(), distances, ids])
        kill_a_worker(client, "piece-a", 8, result)
        open(gate, "w").close()
        *found, distances, ids = client.gather(result)
        again = ours.Rows([dask.delayed(part) for part in found], a.dtype).compute()
        assert_rows(again, adjoin.range_join(a, b, radius=0.1, distances=True))
        expected = adjoin.knn_join(a, b, k=5)
        assert np.array_equal(distances, expected[0]) and np.array_equal(ids, expected[1])
        # A self-join that counts, with the workers that are left.
        total = ours.count(left, radius=0.1, total=True)
        assert int(total.compute()) == adjoin.count(a, radius=0.1, total=True)
