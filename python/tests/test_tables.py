# SPDX-License-Identifier: MIT
"""Inputs and outputs other than arrays: tables, DLPack, sparse matrices, blocks, files, plans."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoin

POINTS = np.random.default_rng(1).random((500, 3))
NAMES = ["x", "y", "z"]


def test_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(POINTS, columns=NAMES)
    expected = adjoin.range_join(POINTS, radius=0.1).indices
    assert np.array_equal(adjoin.range_join(table, radius=0.1).indices, expected)
    table.insert(0, "name", "a")
    assert np.array_equal(adjoin.range_join(table, radius=0.1, columns=NAMES).indices, expected)
    plane = adjoin.range_join(POINTS[:, :2], radius=0.1).indices
    assert np.array_equal(
        adjoin.range_join(table, table, radius=0.1, columns=["x", "y"]).counts - 1,
        np.diff(adjoin.range_join(POINTS[:, :2], radius=0.1).indptr),
    )
    assert len(plane) > len(expected)
    index = adjoin.Index(table, columns=NAMES)
    assert np.array_equal(index.knn(table, 2)[1], adjoin.knn_join(POINTS, POINTS, k=2)[1])
    with pytest.raises(adjoin.ArgumentError, match="'w'.*'x'"):
        adjoin.range_join(table, radius=0.1, columns=["w"])
    with pytest.raises(adjoin.ArrayTypeError, match="not numbers"):
        adjoin.range_join(table, radius=0.1)


def test_pandas_columns_of_several_types() -> None:
    pandas = pytest.importorskip("pandas")
    whole = pandas.array([0, 1, None], "Int64")
    table = pandas.DataFrame({"x": whole, "y": [0.0, 1.0, 2.0], "in": [True, False, True]})
    points = [[0.0, 0.0, 1.0], [1.0, 1.0, 0.0]]
    assert np.array_equal(adjoin.knn_join(table[:2], k=1)[0], adjoin.knn_join(points, k=1)[0])
    with pytest.raises(adjoin.DataError, match="a: row 2, column 0"):
        adjoin.count(table, radius=1)


def test_columns_need_a_table() -> None:
    pandas = pytest.importorskip("pandas")
    with pytest.raises(adjoin.ArgumentError, match="columns: a is not a table"):
        adjoin.range_join(POINTS, radius=0.1, columns=["x", "y"])
    with pytest.raises(adjoin.ArgumentError, match="columns: neither a nor b is a table"):
        adjoin.knn_join(POINTS.tolist(), POINTS, k=1, columns=[0, 1])
    with pytest.raises(adjoin.ArgumentError, match="columns: points is not a table"):
        adjoin.Index(POINTS, columns=[0, 1])
    table = pandas.DataFrame(POINTS, columns=NAMES)
    expected = adjoin.knn_join(POINTS[:, :2], POINTS[:9, :2], k=2)[1]
    plane = ["x", "y"]
    assert np.array_equal(adjoin.knn_join(table, POINTS[:9, :2], k=2, columns=plane)[1], expected)
    assert np.array_equal(adjoin.knn_join(POINTS[:, :2], table[:9], k=2, columns=plane)[1], expected)
    index = pickle.loads(pickle.dumps(adjoin.Index(table[:9], columns=plane)))
    assert np.array_equal(index.knn(POINTS[:, :2], 2)[1], expected)
    assert np.array_equal(index.knn(table, 2)[1], expected)


def test_sparse_matrices_are_refused() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(adjoin.ArrayTypeError, match="toarray"):
        adjoin.count(sparse.csr_array(POINTS), radius=1)


def test_pyarrow() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({name: POINTS[:, j] for j, name in enumerate(NAMES)})
    expected = adjoin.knn_join(POINTS[:, [2, 0]], k=3)
    distances, ids = adjoin.knn_join(table, k=3, columns=["z", "x"])
    assert np.array_equal(ids, expected[1]) and np.array_equal(distances, expected[0])
    assert adjoin.range_join(table, radius=0.1).shape == (500, 500)


class OnlyDLPack:
    """An array that only supports DLPack."""

    def __init__(self, array: Any) -> None:
        self.array, self.shape = array, array.shape

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


class OnlyInterface:
    """An array that only has `__array_interface__`."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.__array_interface__ = array.__array_interface__


@pytest.mark.parametrize("kind", [OnlyDLPack, OnlyInterface])
def test_other_arrays(kind: Any) -> None:
    found = adjoin.knn_join(kind(POINTS), k=2)
    assert np.array_equal(found[1], adjoin.knn_join(POINTS, k=2)[1])


def test_scipy() -> None:
    pytest.importorskip("scipy.sparse")
    result = adjoin.range_join(POINTS, radius=0.2, distances=True)
    sparse = result.to_scipy()
    assert sparse.shape == (500, 500) and sparse.nnz == len(result.indices)
    assert np.shares_memory(sparse.indices, result.indices) and np.shares_memory(sparse.data, result.distances)
    assert abs(sparse - sparse.T).max() == 0
    two = adjoin.range_join(POINTS[:7], POINTS, radius=0.2).to_scipy()
    assert two.shape == (7, 500) and two.dtype == np.float64


def test_rows() -> None:
    result = adjoin.range_join(POINTS, radius=0.1, distances=True)
    assert len(result) == 500 and [len(row) for row in result] == result.counts.tolist()
    assert result[-1].tolist() == result[499].tolist()
    assert np.all(result.distances_of(3) <= 0.1)
    with pytest.raises(IndexError):
        result[500]
    with pytest.raises(TypeError):
        np.asarray(result)
    with pytest.raises(adjoin.ArgumentError, match="distances=True"):
        adjoin.range_join(POINTS, radius=0.1).distances_of(0)
    ordered = adjoin.range_join(POINTS, radius=0.3, distances=True, order="distance")
    assert all(np.all(np.diff(ordered.distances_of(i)) >= 0) for i in range(500))
    assert [sorted(row) for row in adjoin.range_join(POINTS, radius=0.1, order="any")] == [r.tolist() for r in result]


def test_slices() -> None:
    result = adjoin.range_join(POINTS, radius=0.2, distances=True)
    rows = list(result)
    for begin, end in [
        (2, 5),
        (0, 500),
        (None, None),
        (490, None),
        (None, -490),
        (-3, 900),
        (7, 7),
        (9, 3),
        (500, 500),
    ]:
        part = result[begin:end]
        numbers = range(500)[begin:end]
        assert len(part) == len(numbers) and part.shape == (len(numbers), 500)
        assert [row.tolist() for row in part] == [rows[i].tolist() for i in numbers]
        assert part.indptr[0] == 0 and len(part.distances) == len(part.indices)
        assert all(np.array_equal(part.distances_of(i), result.distances_of(j)) for i, j in enumerate(numbers))
        pairs = [(i, j) for i in numbers for j in rows[i]]
        assert list(zip(*part.edge_index.tolist())) == pairs and (not numbers or part.first_row == numbers[0])
    assert np.shares_memory(result[2:5].indices, result.indices)
    assert result[10:20][2:4].first_row == 12 and result[10:20][2].tolist() == rows[12].tolist()
    assert adjoin.range_join(POINTS, radius=0.2)[3:6].distances is None
    with pytest.raises(adjoin.ArgumentError, match="step 1, not 2"):
        result[::2]
    for wrong in ([1, 2], 1.5, "a", result.counts > 2):
        with pytest.raises(TypeError, match="a row is a whole number, not"):
            result[wrong]


@pytest.mark.parametrize("distances", [False, True])
def test_blocks(distances: bool) -> None:
    points = np.random.default_rng(2).random((5000, 2)).astype(np.float32)
    whole = adjoin.range_join(points, radius=0.2, distances=distances)
    blocks = list(adjoin.blocks(points, radius=0.2, distances=distances, tuning="buffer=200000"))
    assert len(blocks) > 3
    assert [block.first_row for block in blocks] == np.cumsum([0] + [len(b) for b in blocks])[:-1].tolist()
    assert np.array_equal(np.concatenate([block.indices for block in blocks]), whole.indices)
    assert np.array_equal(np.concatenate([block.counts for block in blocks]), whole.counts)
    assert np.array_equal(np.concatenate([block.to_coo().rows for block in blocks]), whole.to_coo().rows)
    if distances:
        assert np.array_equal(np.concatenate([block.distances for block in blocks]), whole.distances)


def test_blocks_of_nearest_and_an_early_end() -> None:
    points = np.random.default_rng(2).random((20_000, 2))
    blocks = list(adjoin.blocks(points, k=3))
    assert np.array_equal(np.concatenate([b.indices for b in blocks]), adjoin.knn_join(points, k=3)[1].ravel())
    for block in adjoin.blocks(points, radius=0.1, tuning="buffer=100000"):
        assert block.first_row == 0
        break
    unused = adjoin.blocks(points, radius=0.1)
    del unused
    with pytest.raises(adjoin.LimitError):
        list(adjoin.blocks(points, radius=0.1, max_pairs=5))
    with pytest.raises(adjoin.ArgumentError, match="radius nor k"):
        adjoin.blocks(points)


def test_files(tmp_path: Path) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    file = tmp_path / "near.npz"
    adjoin.write(file, POINTS, radius=0.2)
    assert np.array_equal(sparse.load_npz(file).indices, adjoin.range_join(POINTS, radius=0.2).indices)
    with pytest.raises(adjoin.FileError):
        adjoin.write(file, POINTS, radius=0.2, overwrite=False)
    with pytest.raises(OSError):
        adjoin.write(tmp_path / "none" / "near.npz", POINTS, radius=0.2)
    adjoin.write(tmp_path / "k.npz", POINTS, k=4)
    with np.load(tmp_path / "k.npz") as stored:
        assert np.array_equal(stored["indices"], adjoin.knn_join(POINTS, k=4)[1])
    adjoin.write(tmp_path / "counts.npy", POINTS, radius=0.2, counts=True)
    assert np.array_equal(np.load(tmp_path / "counts.npy"), adjoin.count(POINTS, radius=0.2))


def test_plans() -> None:
    plan = adjoin.explain(POINTS, radius=0.1)
    assert "range join" in str(plan) and plan.pairs > 0 and plan.seconds > 0
    shown = plan._repr_html_()
    assert shown.startswith("<table") and shown.count("<tr>") == len(str(plan).strip().split("\n"))
    assert "run:" in str(adjoin.explain(POINTS, k=3, analyze=True))
    assert "&lt;" not in shown and "<script" not in shown


def test_config(capsys: Any) -> None:
    adjoin.show_config()
    printed = capsys.readouterr().out
    assert adjoin.__version__ in printed and "threads" in printed


def test_signatures_name_the_options() -> None:
    import inspect

    for function in (adjoin.range_join, adjoin.knn_join, adjoin.count, adjoin.pairs, adjoin.blocks, adjoin.write):
        assert {"metric", "threads", "memory", "backend", "progress"} <= set(inspect.signature(function).parameters)
        assert "{options}" not in (function.__doc__ or "")
