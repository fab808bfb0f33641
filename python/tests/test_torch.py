# SPDX-License-Identifier: MIT
"""Neighbour graphs of tensors, on the CPU and on a GPU if there is one. Also runs alone, as a script.

They are compared with a reference in a few lines, and with torch-cluster if it is installed.
"""

from __future__ import annotations

import itertools
import sys
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import adjoin  # noqa: E402
from adjoin import torch as ours  # noqa: E402

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() and adjoin.show_config("dicts")["devices"] else [])
KINDS = list(itertools.product(DEVICES, [torch.float32, torch.float64]))


def points(seed: int, n: int, dim: int, device: str, kind: Any) -> Any:
    """Points of a lattice, so that distances are exact and many are equal."""
    rng = np.random.default_rng(seed)
    return torch.tensor(rng.integers(0, 6, (n, dim)) / 4, dtype=kind, device=device)


def batches(seed: int, n: int, examples: int, device: str) -> Any:
    rng = np.random.default_rng(seed)
    return torch.tensor(np.sort(rng.integers(0, examples, n)), device=device)


def table(x: Any, y: Any, batch_x: Any, batch_y: Any, cosine: bool = False) -> Any:
    """All distances from points of y to points of x; infinity between examples."""
    x, y = x.cpu().double(), y.cpu().double()
    if cosine:
        unit = [each / each.norm(dim=1, keepdim=True) for each in (y, x)]
        distances = 1 - unit[0] @ unit[1].T
    else:
        distances = (y[:, None, :] - x[None, :, :]).norm(dim=2)
    if batch_x is not None:
        distances[batch_y.cpu()[:, None] != batch_x.cpu()[None, :]] = torch.inf
    return distances


def edges_within(distances: Any, r: float, limit: int | None) -> list[list[int]]:
    rows, columns = [], []
    for i, row in enumerate(distances.tolist()):
        near = [j for j in np.lexsort((range(len(row)), row)).tolist() if row[j] <= r][:limit]
        rows += len(near) * [i]
        columns += sorted(near)
    return [rows, columns]


def edges_nearest(distances: Any, k: int) -> list[list[int]]:
    rows, columns = [], []
    for i, row in enumerate(distances.tolist()):
        near = [j for j in np.lexsort((range(len(row)), row)).tolist() if row[j] < np.inf][:k]
        rows += len(near) * [i]
        columns += near
    return [rows, columns]


def assert_edges(found: Any, expected: list[list[int]], device: str) -> None:
    assert found.dtype == torch.int64 and found.device.type == device and found.shape[0] == 2
    assert found.tolist() == expected


@pytest.mark.parametrize("examples", [0, 1, 7])
@pytest.mark.parametrize("limit", [None, 32, 3])
@pytest.mark.parametrize("device, kind", KINDS)
def test_radius(device: str, kind: Any, limit: int | None, examples: int) -> None:
    x, y = points(1, 120, 3, device, kind), points(2, 90, 3, device, kind)
    batch_x = batches(3, 120, examples, device) if examples else None
    batch_y = batches(4, 90, examples, device) if examples else None
    expected = edges_within(table(x, y, batch_x, batch_y), 0.5, limit)
    assert_edges(ours.radius(x, y, 0.5, batch_x, batch_y, limit), expected, device)
    own = table(x, x, batch_x, batch_x)
    loops = edges_within(own, 0.5, limit)
    assert_edges(ours.radius_graph(x, 0.5, batch_x, True, limit, "target_to_source"), loops, device)
    own.fill_diagonal_(torch.inf)
    rows, columns = edges_within(own, 0.5, limit)
    assert_edges(ours.radius_graph(x, 0.5, batch_x, max_num_neighbors=limit), [columns, rows], device)


@pytest.mark.parametrize("examples", [0, 1, 7, 60])
@pytest.mark.parametrize("k", [1, 4, 200])
@pytest.mark.parametrize("device, kind", KINDS)
def test_knn(device: str, kind: Any, k: int, examples: int) -> None:
    x, y = points(1, 120, 3, device, kind), points(2, 90, 3, device, kind)
    batch_x = batches(3, 120, examples, device) if examples else None
    batch_y = batches(4, 90, examples, device) if examples else None
    expected = edges_nearest(table(x, y, batch_x, batch_y), k)
    assert_edges(ours.knn(x, y, k, batch_x, batch_y), expected, device)
    own = table(x, x, batch_x, batch_x)
    assert_edges(ours.knn_graph(x, k, batch_x, True, "target_to_source"), edges_nearest(own, k), device)
    own.fill_diagonal_(torch.inf)
    rows, columns = edges_nearest(own, k)
    assert_edges(ours.knn_graph(x, k, batch_x), [columns, rows], device)


@pytest.mark.parametrize("device", DEVICES)
def test_cosine(device: str) -> None:
    rng = np.random.default_rng(1)
    x = torch.tensor(rng.normal(size=(80, 16)), device=device)
    batch = batches(2, 80, 4, device)
    own = table(x, x, batch, batch, cosine=True)
    assert_edges(ours.knn_graph(x, 3, batch, True, "target_to_source", cosine=True), edges_nearest(own, 3), device)
    assert_edges(ours.knn(x, x, 3, cosine=True), edges_nearest(table(x, x, None, None, cosine=True), 3), device)


@pytest.mark.parametrize("device", DEVICES)
def test_examples_one_by_one(device: str) -> None:
    """If a coordinate cannot hold the number of an example exactly, examples are joined one by one."""
    x, y = points(5, 60, 2, device, torch.float32), points(7, 50, 2, device, torch.float32)
    few, others = batches(6, 60, 5, device), batches(8, 50, 6, device)
    for wide in (7_000_000, 1 << 40):
        assert ours._step(0.5, 4 * wide + 1, torch.float32) is None
        assert torch.equal(ours.radius_graph(x, 0.5, few), ours.radius_graph(x, 0.5, few * wide))
        assert torch.equal(ours.knn_graph(x, 3, few), ours.knn_graph(x, 3, few * wide))
        assert torch.equal(ours.knn(x, y, 3, few, others), ours.knn(x, y, 3, few * wide, others * wide))
    assert ours._step(0.5, 5, torch.float32) == 2.0
    assert ours._step(1e37, 5, torch.float32) is None and ours._step(1e37, 5, torch.float64) is not None


@pytest.mark.parametrize("device", DEVICES)
def test_shapes_and_types(device: str) -> None:
    line = torch.tensor([0.0, 1.0, 3.0, 3.5], device=device)
    assert_edges(ours.radius_graph(line, 1.0), [[1, 0, 3, 2], [0, 1, 2, 3]], device)
    for kind in (torch.float16, torch.bfloat16, torch.int64, torch.float64):
        assert_edges(ours.knn_graph((2 * line).to(kind), 1), [[1, 0, 3, 2], [0, 1, 2, 3]], device)
    wide = points(1, 50, 6, device, torch.float64)
    assert torch.equal(ours.knn_graph(wide[:, ::2], 3), ours.knn_graph(wide[:, ::2].contiguous(), 3))
    learned = wide.clone().requires_grad_()
    assert not ours.knn_graph(learned, 3).requires_grad
    empty = wide[:0]
    for found in (ours.radius(empty, wide, 1.0), ours.radius(wide, empty, 1.0), ours.knn(wide, empty, 2)):
        assert_edges(found, [[], []], device)
    nothing = torch.empty(0, dtype=torch.int64, device=device)
    assert_edges(ours.radius_graph(empty, 1.0, nothing), [[], []], device)
    assert_edges(ours.knn_graph(wide[:1], 3), [[], []], device)


def test_wrong_arguments() -> None:
    x = points(1, 10, 2, "cpu", torch.float32)
    zeros = torch.zeros(10, dtype=torch.int64)
    with pytest.raises(adjoin.ArgumentError, match="flow: 'sideways'"):
        ours.radius_graph(x, 1.0, flow="sideways")
    with pytest.raises(adjoin.ArgumentError, match="batch_x, batch_y"):
        ours.knn(x, x, 1, batch_x=zeros)
    with pytest.raises(adjoin.ArgumentError, match=r"batch: shape \(9,\)"):
        ours.knn_graph(x, 1, zeros[:9])
    with pytest.raises(adjoin.ArgumentError, match="ascending"):
        ours.knn_graph(x, 1, torch.arange(10).flip(0))
    with pytest.raises(adjoin.ArrayTypeError, match="whole numbers"):
        ours.knn_graph(x, 1, zeros.float())
    with pytest.raises(adjoin.ArrayTypeError, match="list is not a torch.Tensor"):
        ours.knn_graph([[0.0]], 1)
    with pytest.raises(adjoin.DataError):
        ours.knn_graph(torch.tensor([[0.0], [torch.nan]]), 1, zeros[:2])
    with pytest.raises(adjoin.ArgumentError, match="k: 0"):
        ours.knn_graph(x, 0)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("examples", [0, 5])
def test_torch_cluster(device: str, examples: int) -> None:
    theirs = pytest.importorskip("torch_cluster")
    rng = np.random.default_rng(8)
    x = torch.tensor(rng.random((300, 3)), dtype=torch.float32, device=device)
    batch = batches(9, 300, examples, device) if examples else None

    def edges(found: Any) -> set[tuple[int, int]]:
        return set(zip(*found.cpu().tolist()))

    assert edges(ours.radius_graph(x, 0.2, batch)) == edges(theirs.radius_graph(x, 0.2, batch))
    assert edges(ours.knn_graph(x, 4, batch)) == edges(theirs.knn_graph(x, 4, batch))
    assert edges(ours.knn(x, x + 0.1, 2, batch, batch)) == edges(theirs.knn(x, x + 0.1, 2, batch, batch))
    assert edges(ours.radius(x, x + 0.1, 0.2, batch, batch)) == edges(theirs.radius(x, x + 0.1, 0.2, batch, batch))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("device", DEVICES)
def test_a_layer_of_pyg(device: str) -> None:
    """A convolution over a graph has the same output as one with a dense matrix of all pairs."""
    nn = pytest.importorskip("torch_geometric.nn")
    x = points(1, 40, 3, device, torch.float32)
    batch = batches(2, 40, 3, device)
    edges = ours.radius_graph(x, 0.6, batch, max_num_neighbors=None)
    near = table(x, x, batch, batch).fill_diagonal_(torch.inf) <= 0.6
    out = nn.SimpleConv(aggr="sum")(x, edges)
    assert torch.allclose(out, near.to(x.dtype).to(device) @ x)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-q", *sys.argv[1:]]))
