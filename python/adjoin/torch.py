# SPDX-License-Identifier: MIT
"""Neighbour graphs for PyTorch, with the interface of torch-cluster and PyTorch Geometric.

`radius`, `knn`, `radius_graph` and `knn_graph` have the arguments and conventions of the functions of the same names.
Tensors are joined on their own device, and the edges are on the same device. The differences are:

- A point at exactly the radius is a neighbour (``<=``).
- If there are more than `max_num_neighbors` neighbours, the nearest are kept. None means no limit.
- Edges are ordered: by point, then by neighbour (radius) or by distance with ties by neighbour (k nearest). So a graph
  is the same on every device and in every run.
- ``loop=False`` leaves out only the point itself: copies of a point are its neighbours.
- ``cosine=True`` also works on the CPU.
- `num_workers` and `batch_size` are ignored: all threads of the process work on a call.

Edges have no gradients.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ._errors import ArgumentError, ArrayTypeError
from ._functions import count, knn_join, range_join
from ._options import k_of

__all__ = ["knn", "knn_graph", "radius", "radius_graph"]

# A join of queries with points, or of the queries with themselves if points is None. It returns edges from queries to
# their neighbours.
Join = Callable[[Tensor, "Tensor | None"], Tensor]


def radius(
    x: Tensor,
    y: Tensor,
    r: float,
    batch_x: Tensor | None = None,
    batch_y: Tensor | None = None,
    max_num_neighbors: int | None = 32,
    num_workers: int = 1,
    batch_size: int | None = None,
) -> Tensor:
    """For each point of `y`, the points of `x` within a radius.

    Parameters
    ----------
    x, y : Tensor
        Points, one per row, on the same device.
    r : float
        The largest distance of a neighbour (``<=``).
    batch_x, batch_y : Tensor, optional
        The number of the example that each point belongs to, in ascending order. Points of different examples are not
        neighbours.
    max_num_neighbors : int, optional
        The largest number of neighbours of a point. If there are more, the nearest are kept. None: no limit.
    num_workers, batch_size
        Ignored.

    Returns
    -------
    Tensor of int64, shape (2, edges)
        The first row holds points of `y`, the second row their neighbours in `x`.

    Examples
    --------
    >>> import torch
    >>> from adjoin.torch import radius
    >>> x = torch.tensor([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
    >>> radius(x, torch.tensor([[-1.0, 0.0], [1.0, 0.0]]), 1.5)
    tensor([[0, 0, 1, 1],
            [0, 1, 2, 3]])
    """
    del num_workers, batch_size
    join = _within(r, max_num_neighbors, False)
    return _join_examples(join, _points(y, "y"), _points(x, "x"), batch_y, batch_x, float(r))


def radius_graph(
    x: Tensor,
    r: float,
    batch: Tensor | None = None,
    loop: bool = False,
    max_num_neighbors: int | None = 32,
    flow: str = "source_to_target",
    num_workers: int = 1,
    batch_size: int | None = None,
) -> Tensor:
    """A graph that connects each point with the points within a radius.

    Parameters
    ----------
    x : Tensor
        Points, one per row.
    r : float
        The largest distance of a neighbour (``<=``).
    batch : Tensor, optional
        The number of the example that each point belongs to, in ascending order. Points of different examples are not
        neighbours.
    loop : bool
        A point is also a neighbour of itself.
    max_num_neighbors : int, optional
        The largest number of neighbours of a point. If there are more, the nearest are kept. None: no limit.
    flow : {"source_to_target", "target_to_source"}
        Whether edges lead from neighbours to the point, or from the point to its neighbours.
    num_workers, batch_size
        Ignored.

    Returns
    -------
    Tensor of int64, shape (2, edges)
        The first row holds the sources of the edges, the second row their targets.

    Examples
    --------
    >>> import torch
    >>> from adjoin.torch import radius_graph
    >>> radius_graph(torch.tensor([[0.0], [1.0], [3.0], [3.5]]), 1.0)
    tensor([[1, 0, 3, 2],
            [0, 1, 2, 3]])
    """
    del num_workers, batch_size
    join = _within(r, max_num_neighbors, loop)
    return _directed(_join_examples(join, _points(x, "x"), None, batch, None, float(r)), flow)


def knn(
    x: Tensor,
    y: Tensor,
    k: int,
    batch_x: Tensor | None = None,
    batch_y: Tensor | None = None,
    cosine: bool = False,
    num_workers: int = 1,
    batch_size: int | None = None,
) -> Tensor:
    """For each point of `y`, the k nearest points of `x`.

    Parameters
    ----------
    x, y : Tensor
        Points, one per row, on the same device.
    k : int
        The number of neighbours of each point. In an example with fewer points, points have fewer neighbours.
    batch_x, batch_y : Tensor, optional
        The number of the example that each point belongs to, in ascending order. Points of different examples are not
        neighbours.
    cosine : bool
        Use the angle between two points instead of their Euclidean distance.
    num_workers, batch_size
        Ignored.

    Returns
    -------
    Tensor of int64, shape (2, edges)
        The first row holds points of `y`, the second row their neighbours in `x`, nearest first.

    Examples
    --------
    >>> import torch
    >>> from adjoin.torch import knn
    >>> x = torch.tensor([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
    >>> knn(x, torch.tensor([[-1.0, 0.0], [1.0, 0.0]]), 2)
    tensor([[0, 0, 1, 1],
            [0, 1, 2, 3]])
    """
    del num_workers, batch_size
    return _nearest(_points(y, "y"), _points(x, "x"), k, batch_y, batch_x, cosine, False)


def knn_graph(
    x: Tensor,
    k: int,
    batch: Tensor | None = None,
    loop: bool = False,
    flow: str = "source_to_target",
    cosine: bool = False,
    num_workers: int = 1,
    batch_size: int | None = None,
) -> Tensor:
    """A graph that connects each point with its k nearest neighbours.

    Parameters
    ----------
    x : Tensor
        Points, one per row.
    k : int
        The number of neighbours of each point. In an example with fewer points, points have fewer neighbours.
    batch : Tensor, optional
        The number of the example that each point belongs to, in ascending order. Points of different examples are not
        neighbours.
    loop : bool
        A point is also a neighbour of itself, and counts as one of the k.
    flow : {"source_to_target", "target_to_source"}
        Whether edges lead from neighbours to the point, or from the point to its neighbours.
    cosine : bool
        Use the angle between two points instead of their Euclidean distance.
    num_workers, batch_size
        Ignored.

    Returns
    -------
    Tensor of int64, shape (2, edges)
        The first row holds the sources of the edges, the second row their targets.

    Examples
    --------
    >>> import torch
    >>> from adjoin.torch import knn_graph
    >>> knn_graph(torch.tensor([[0.0], [1.0], [3.0], [3.5]]), 1)
    tensor([[1, 0, 3, 2],
            [0, 1, 2, 3]])
    """
    del num_workers, batch_size
    return _directed(_nearest(_points(x, "x"), None, k, batch, None, cosine, loop), flow)


# ---- Points and edges ----


def _points(x: Tensor, name: str) -> Tensor:
    """A matrix of f32 or f64."""
    if not isinstance(x, torch.Tensor):
        raise ArrayTypeError(f"{name}: {type(x).__name__} is not a torch.Tensor")
    x = x.detach()
    if x.dim() == 1:
        x = x.view(-1, 1)
    if x.dtype in (torch.float16, torch.bfloat16):
        return x.float()
    return x if x.dtype in (torch.float32, torch.float64) else x.double()


def _array(x: Tensor | None) -> Any:
    """A tensor in the form that the plain functions take: itself on a GPU, or a NumPy array in host memory."""
    return x if x is None or x.is_cuda else x.numpy()


def _tensor(x: Any) -> Tensor:
    return x if isinstance(x, torch.Tensor) else torch.from_numpy(x)


def _directed(edges: Tensor, flow: str) -> Tensor:
    if flow not in ("source_to_target", "target_to_source"):
        raise ArgumentError(f'flow: {flow!r} is neither "source_to_target" nor "target_to_source"')
    return edges.flip(0) if flow == "source_to_target" else edges


def _from_table(ids: Tensor) -> Tensor:
    """The edges in a table of neighbours, in which -1 is a missing one."""
    rows = torch.arange(ids.shape[0], device=ids.device).unsqueeze(1).expand_as(ids)
    there = ids >= 0
    return torch.stack((rows[there], ids[there]))


def _within(r: float, limit: int | None, loop: bool) -> Join:
    """A range join. If a row has more neighbours than the limit, a kNN join within the radius instead."""
    if limit is not None:
        limit = k_of(limit)

    def join(queries: Tensor, points: Tensor | None) -> Tensor:
        a, b = _array(queries), _array(points)
        candidates = len(queries if points is None else points)
        if limit is not None and limit < candidates and len(queries):
            if int(count(a, b, radius=r, include_self=loop).max()) > limit:
                _, ids = knn_join(a, b, k=limit, radius=r, include_self=loop)
                return _from_table(_tensor(ids).long().sort(1).values)
        return _tensor(range_join(a, b, radius=r, include_self=loop).edge_index)

    return join


def _nearest(
    queries: Tensor,
    points: Tensor | None,
    k: int,
    batch: Tensor | None,
    batch_of_points: Tensor | None,
    cosine: bool,
    loop: bool,
) -> Tensor:
    """The k nearest within each example."""
    number = k_of(k)
    reach = math.inf if cosine or batch is None else 2 * _span(queries, points)
    bound = None if math.isinf(reach) or math.isnan(reach) else reach
    metric = "cosine" if cosine else "euclidean"

    def join(queries: Tensor, points: Tensor | None) -> Tensor:
        most = min(number, max(1, len(queries if points is None else points)))
        a, b = _array(queries), _array(points)
        _, ids = knn_join(a, b, k=most, radius=bound, include_self=loop, metric=metric)
        return _from_table(_tensor(ids).long())

    return _join_examples(join, queries, points, batch, batch_of_points, reach)


# ---- Examples ----


def _span(queries: Tensor, points: Tensor | None) -> float:
    """An upper bound, up to rounding, of the distance between two points."""
    sets = [x for x in (queries, points) if x is not None and x.numel()]
    if not sets:
        return 0.0
    low = torch.stack([x.amin(0).double() for x in sets]).amin(0)
    high = torch.stack([x.amax(0).double() for x in sets]).amax(0)
    return float((high - low).sum())


def _checked(batch: Tensor | None, points: Tensor, name: str) -> Tensor | None:
    if batch is None:
        return None
    if batch.dim() != 1 or len(batch) != len(points):
        raise ArgumentError(f"{name}: shape {tuple(batch.shape)} is not one example for each of {len(points)} points")
    if batch.dtype.is_floating_point:
        raise ArrayTypeError(f"{name}: {batch.dtype} is not a type of whole numbers")
    if len(batch) and (int(batch[0]) < 0 or bool((batch[1:] < batch[:-1]).any())):
        raise ArgumentError(f"{name}: the numbers of examples must be 0 or larger, and in ascending order")
    return batch.to(points.device, torch.int64).contiguous()


def _join_examples(
    join: Join,
    queries: Tensor,
    points: Tensor | None,
    batch: Tensor | None,
    batch_of_points: Tensor | None,
    reach: float,
) -> Tensor:
    """Joins each example separately. `reach` is an upper bound of the distance between neighbours."""
    names = ("batch", "batch") if points is None else ("batch_y", "batch_x")
    if points is not None and (batch is None) != (batch_of_points is None):
        raise ArgumentError("batch_x, batch_y: one is given and the other is not")
    of_queries = _checked(batch, queries, names[0])
    if of_queries is None:
        return join(queries, points)
    of_points = None if points is None else _checked(batch_of_points, points, names[1])
    examples = max((int(each[-1]) + 1 for each in (of_queries, of_points) if each is not None and len(each)), default=1)
    if examples == 1:
        return join(queries, points)
    step = _step(reach, examples, queries.dtype)
    if step is None:
        return _one_by_one(join, queries, points, of_queries, of_points)
    apart = None if points is None or of_points is None else _apart(points, of_points, step)
    return join(_apart(queries, of_queries, step), apart)


def _step(reach: float, examples: int, kind: torch.dtype) -> float | None:
    """The distance to put between examples: a power of two above the reach. None if its multiples are not exact."""
    if not math.isfinite(reach):
        return None
    step = 2.0 ** max(-30, math.frexp(abs(reach))[1] + 1)
    limits = torch.finfo(kind)
    is_exact = examples * limits.eps < 1 and step < math.sqrt(limits.max) / examples
    return step if is_exact else None


def _apart(points: Tensor, batch: Tensor, step: float) -> Tensor:
    """Points with one more coordinate, which separates the examples by more than the reach.

    Within an example the coordinate is the same, so it adds the square of zero, which does not change a distance.
    """
    return torch.cat((points, (batch.to(points.dtype) * step).unsqueeze(1)), 1)


def _one_by_one(
    join: Join, queries: Tensor, points: Tensor | None, of_queries: Tensor, of_points: Tensor | None
) -> Tensor:
    """Joins the examples one after the other."""
    examples = torch.unique_consecutive(of_queries)

    def bounds(batch: Tensor) -> tuple[list[int], list[int]]:
        sides = (torch.searchsorted(batch, examples, right=right) for right in (False, True))
        begins, ends = (side.tolist() for side in sides)
        return begins, ends

    rows = bounds(of_queries)
    columns = rows if of_points is None else bounds(of_points)
    found = [torch.empty((2, 0), dtype=torch.int64, device=queries.device)]
    for begin, end, first, last in zip(*rows, *columns):
        if first < last:
            edges = join(queries[begin:end], None if points is None else points[first:last])
            found.append(edges + torch.tensor([[begin], [first]], device=edges.device))
    return torch.cat(found, 1)
