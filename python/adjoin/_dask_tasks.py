# SPDX-License-Identifier: MIT
"""The tasks of adjoin.dask: functions of NumPy arrays that run on workers. dask.py combines them into graphs.

There are two methods. "Regions" cuts space into regions, moves each point to its region, and joins each region
separately. A range join also sends copies of points to the regions within the radius. A kNN join sends queries to other
regions that may hold nearer points, and merges the lists. "Blocks" joins each partition with every other one, and
merges the results.

Points carry their ids, which are row numbers in the whole set. In each join the points are sorted by id, so that the
rows have the same bits as in a join of all points.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from . import _declarations as d
from ._arrays import Array, as_points
from ._errors import Error
from ._functions import _knn_job, _range_job
from ._options import Settings, order_of, settings
from ._result import Result
from ._split import Split, dataset, merge, radii_of, reported, spec_of

# The number of points, roughly, from which a split is made.
SAMPLE = 1 << 16


@dataclass(frozen=True)
class Asked:
    """The parameters of a join, as passed to tasks."""

    options: dict[str, Any]
    dtype: np.dtype[Any]
    dim: int
    own: bool  # one set is joined with itself
    include_self: bool
    regions: int
    radius: float | None = None
    k: int = 0  # 0: a range join
    counts: bool = False
    distances: bool = False
    order: str = "id"
    columns: Any = None  # the columns of tables

    def settings(self) -> Settings:
        """The options as values for the library."""
        return settings(self.options)

    def spec(self) -> d.adj_join_spec:
        """The join as a struct for the library."""
        return spec_of(self.settings(), d.ADJ_KNN if self.k else d.ADJ_RANGE, self.radius)

    def split(self, stored: bytes) -> Split:
        """The split in these bytes."""
        return Split.load(self.settings(), self.spec(), self.dtype, self.dim, stored)

    def empty(self) -> Array:
        """A set without points."""
        return np.empty((0, self.dim), self.dtype)


class Points(NamedTuple):
    """Points with their ids."""

    ids: Array
    points: Array


class Piece(NamedTuple):
    """The points that a partition sends to a region: those whose home it is, and those of its halo."""

    own: Points
    halo: Points


class Rows(NamedTuple):
    """Rows of neighbours for a partition: the ids of the rows, the number of entries of each, and the entries."""

    ids: Array
    counts: Array
    indices: Array | None
    values: Array | None


class Nearest(NamedTuple):
    """Lists of nearest neighbours: the ids of the rows (or their places), then k ids and k sums per row."""

    rows: Array
    ids: Array
    sums: Array


class Visitors(NamedTuple):
    """Queries that are also searched in another region: their places in their own region, and search radii."""

    rows: Array
    points: Array
    radii: Array


# ---- Partitions ----


@contextlib.contextmanager
def _named(name: str, number: int) -> Iterator[None]:
    """Adds the partition to the messages of errors."""
    try:
        yield
    except Error as reason:
        raise type(reason)(f"partition {number} of {name}: {reason}") from None


def points_of(asked: Asked, name: str, number: int, part: Any) -> Array:
    """The points of a partition. They are checked here, so that messages have the user's row numbers."""
    with _named(name, number):
        points = as_points(part, name, asked.dtype, asked.columns)
        with dataset(asked.settings().get_context(), points):
            return points


def offsets_of(lengths: Sequence[int]) -> Array:
    """The id of the first point of each partition, and at the end the number of all points."""
    return np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))


def sample_of(points: Array, offsets: Array) -> Array:
    """Every n-th point, the same n in all partitions."""
    sample: Array = points[:: max(1, int(offsets[-1]) // SAMPLE)].copy()
    return sample


def split_of(asked: Asked, offsets: Array, samples: Sequence[Array]) -> bytes:
    """The regions of space. If many points coincide there are fewer regions than asked for."""
    sample = np.concatenate(samples)
    return Split.of(asked.settings(), asked.spec(), sample, int(offsets[-1]), asked.regions).save()


def _divided(points: Array, first: int, keys: Array, count: int) -> list[Points]:
    """The points by their keys. Points with the same key keep their order."""
    order = np.argsort(keys, kind="stable")
    ends = np.searchsorted(keys[order], np.arange(1, count))
    return [Points(rows + first, points[rows]) for rows in np.split(order, ends)]


def scatter(
    asked: Asked, name: str, number: int, points: Array, offsets: Array, stored: bytes, own: bool, halo: bool
) -> list[Piece]:
    """The piece that a partition sends to each region."""
    split, first = asked.split(stored), int(offsets[number])
    nothing = Points(np.empty(0, np.int64), asked.empty())
    homes = halos = [nothing] * asked.regions
    with _named(name, number):
        home = split.home(points) if own else None
        if home is not None:
            homes = _divided(points, first, home, asked.regions)
        if halo:
            halos = [Points(rows.astype(np.int64) + first, points[rows]) for rows in split.halo(points, home)]
    return [Piece(*both) for both in itertools.zip_longest(homes, halos, fillvalue=nothing)]


def _stacked(pieces: Sequence[Points]) -> Points:
    return Points(np.concatenate([p.ids for p in pieces]), np.concatenate([p.points for p in pieces]))


def region_of(pieces: Sequence[Piece]) -> Points:
    """All points whose home is this region."""
    return _stacked([piece.own for piece in pieces])


def _by_partition(offsets: Array, ids: Array) -> list[tuple[int, int]]:
    """The begin and end of each partition's rows in a sorted array of ids."""
    return list(itertools.pairwise(np.searchsorted(ids, offsets).tolist()))


# ---- Range joins ----


def _joined(asked: Asked, left: Points, right: Points, values: bool) -> Rows:
    """The right neighbours of left points, with sums or distances, and without pairs of a point with itself."""
    job = _range_job(left.points, right.points, asked.radius, asked.options)
    drop = asked.own and not asked.include_self
    if asked.counts:
        counts = job.counts().astype(np.int64)
        if drop:
            counts -= np.isin(left.ids, right.ids, assume_unique=True)
        return Rows(left.ids, counts, None, None)
    job.spec.order = order_of(asked.order)
    job.spec.flags = d.ADJ_WITH_SUM if values and asked.order == "distance" else d.ADJ_WITH_DISTANCE if values else 0
    rows = job.rows()
    indices, found, counts = right.ids[rows.indices], rows.distances, rows.counts
    if drop:
        keep = indices != np.repeat(left.ids, counts)
        counts = np.diff(np.concatenate(([0], np.cumsum(keep)))[rows.indptr])
        indices, found = indices[keep], None if found is None else found[keep]
    return Rows(left.ids, counts, indices, None if found is None else np.array(found))


def join_region(asked: Asked, offsets: Array, pieces: Sequence[Piece], others: Sequence[Piece] | None) -> list[Rows]:
    """The rows of a region, one entry for each partition."""
    left = region_of(pieces)
    right = _stacked([piece.halo for piece in (pieces if others is None else others)])
    if others is None:
        both = _stacked([left, right])
        order = np.argsort(both.ids)
        right = Points(both.ids[order], both.points[order])
    rows = _joined(asked, left, right, asked.distances or asked.order == "distance")
    ends = np.concatenate(([0], np.cumsum(rows.counts)))
    out = []
    for begin, end in _by_partition(offsets, rows.ids):
        entries = slice(int(ends[begin]), int(ends[end]))
        cut = (None if each is None else each[entries] for each in (rows.indices, rows.values))
        out.append(Rows(rows.ids[begin:end], rows.counts[begin:end], *cut))
    return out


def join_block(
    asked: Asked, left: Array, right: Array, at: tuple[int, int], offsets: Array, right_offsets: Array
) -> Rows:
    """The neighbours of a partition's points in another partition."""
    i, j = at
    queries = Points(np.arange(offsets[i], offsets[i + 1]), left)
    candidates = Points(np.arange(right_offsets[j], right_offsets[j + 1]), right)
    return _joined(asked, queries, candidates, asked.distances or asked.order == "distance")


def gather_counts(number: int, offsets: Array, pieces: Sequence[Rows]) -> Array:
    """The counts of a partition."""
    counts = np.zeros(int(offsets[number + 1] - offsets[number]), np.int64)
    for piece in pieces:
        counts[piece.ids - offsets[number]] += piece.counts
    return counts


def gather_rows(asked: Asked, number: int, offsets: Array, candidates: int, pieces: Sequence[Rows]) -> Result:
    """The rows of a partition in order. The entries of a row that came in several pieces are joined together."""
    first, count = int(offsets[number]), int(offsets[number + 1] - offsets[number])
    rows = np.concatenate([piece.ids for piece in pieces]) - first
    lengths = np.concatenate([piece.counts for piece in pieces])
    indices = np.concatenate([piece.indices for piece in pieces if piece.indices is not None])
    starts = np.cumsum(lengths) - lengths
    order = np.argsort(rows, kind="stable")
    ends = np.cumsum(lengths[order])
    places = np.repeat(starts[order] - ends + lengths[order], lengths[order]) + np.arange(len(indices))
    indptr = np.concatenate(([0], np.cumsum(np.bincount(rows, lengths, count).astype(np.int64))))
    indices = indices[places]
    values = None
    if asked.distances or asked.order == "distance":
        values = np.concatenate([piece.values for piece in pieces if piece.values is not None])[places]
    if values is not None and asked.order == "distance":
        by_sum = np.lexsort((indices, values, np.repeat(np.arange(count), np.diff(indptr))))
        indices, values = indices[by_sum], reported(asked.spec(), values[by_sum])
    return Result(indptr, indices, values if asked.distances else None, (count, candidates), first)


# ---- kNN joins ----


def _searched(asked: Asked, queries: Array, right: Points | None, ids: Array, radius: Any) -> tuple[Array, Array]:
    """The ids and sums of each query's nearest right points, or without right points of its nearest other queries."""
    points = None if right is None else right.points
    job = _knn_job(queries, points, asked.k, radius, right is None and asked.include_self, asked.options)
    job.spec.flags = d.ADJ_WITH_SUM | (job.spec.flags & d.ADJ_WITH_SELF)
    sums, found = job.nearest()
    return np.where(found < 0, -1, ids[found] if len(ids) else -1), np.array(sums)


def bounds_of(asked: Asked, points: Array, stored: bytes) -> Array:
    """The bounding box of a partition's points in each region."""
    split = asked.split(stored)
    return split.bounds(points, split.home(points))


def bounds_of_all(parts: Sequence[Array]) -> Array:
    """The bounding box of all points in each region."""
    return np.stack([np.min([part[0] for part in parts], axis=0), np.max([part[1] for part in parts], axis=0)])


def search_region(
    asked: Asked, number: int, left: Points, right: Points, stored: bytes, bounds: Array
) -> tuple[Nearest, list[Visitors]]:
    """The nearest points of a region's queries in that region, and the queries to search in other regions too."""
    ids, sums = _searched(asked, left.points, None if asked.own else right, right.ids, asked.radius)
    split = asked.split(stored)
    split.set_bounds(bounds)
    radii = radii_of(asked.spec(), sums[:, -1])
    radii[ids[:, -1] < 0] = np.inf
    if asked.radius is not None:
        radii = np.minimum(radii, asked.radius)
    home = np.full(len(radii), number, np.uint32)
    lists = split.halo(left.points, home, radii) + [home[:0]] * (asked.regions - split.regions)
    visits = [Visitors(rows, left.points[rows], radii[rows]) for rows in lists]
    return Nearest(left.ids, ids, sums), visits


def search_visitors(asked: Asked, right: Points, visits: Sequence[Visitors]) -> list[Nearest]:
    """The nearest points in this region of queries from other regions, one entry for each of those regions."""
    queries = np.concatenate([visit.points for visit in visits])
    radii = np.concatenate([visit.radii for visit in visits])
    ends = np.cumsum([len(visit.rows) for visit in visits])[:-1]
    if len(right.points) and len(queries):
        ids, sums = _searched(asked, queries, right, right.ids, radii)
    else:
        ids, sums = np.full((len(queries), asked.k), -1), np.full((len(queries), asked.k), np.inf, asked.dtype)
    lists = zip(visits, np.split(ids, ends), np.split(sums, ends))
    return [Nearest(visit.rows, each, values) for visit, each, values in lists]


def finish_region(offsets: Array, found: tuple[Nearest, Any], others: Sequence[Nearest]) -> list[Nearest]:
    """The complete lists of a region, one entry for each partition."""
    mine = found[0]
    ids, sums = mine.ids.copy(), mine.sums.copy()
    for each in others:
        if len(each.rows):
            merge(ids, sums, np.ascontiguousarray(each.ids), np.ascontiguousarray(each.sums), each.rows)
    cuts = _by_partition(offsets, mine.rows)
    return [Nearest(mine.rows[begin:end], ids[begin:end], sums[begin:end]) for begin, end in cuts]


def search_block(
    asked: Asked,
    before: Nearest | None,
    left: Array,
    right: Array,
    at: tuple[int, int],
    offsets: Array,
    right_offsets: Array,
) -> Nearest:
    """The nearest points of a partition's queries in another partition, merged with those found before."""
    i, j = at
    candidates = Points(np.arange(right_offsets[j], right_offsets[j + 1]), right)
    with_itself = asked.own and i == j
    ids, sums = _searched(asked, left, None if with_itself else candidates, candidates.ids, asked.radius)
    if before is not None:
        merged = before.ids.copy(), before.sums.copy()
        merge(*merged, ids, sums, None)
        ids, sums = merged
    return Nearest(np.arange(offsets[i], offsets[i + 1]), ids, sums)


def gather_nearest(asked: Asked, number: int, offsets: Array, pieces: Sequence[Nearest]) -> tuple[Array, Array]:
    """The lists of a partition in order, as distances and ids."""
    count = int(offsets[number + 1] - offsets[number])
    ids, sums = np.empty((count, asked.k), np.int64), np.empty((count, asked.k), asked.dtype)
    for piece in pieces:
        places = piece.rows - offsets[number]
        ids[places], sums[places] = piece.ids, piece.sums
    return reported(asked.spec(), sums), ids
