# SPDX-License-Identifier: MIT
"""The result of a range join: rows of neighbours."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ._arrays import Array
from ._errors import ArgumentError, ArrayTypeError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["Coordinates", "Result"]


class Coordinates(NamedTuple):
    """Pairs as three arrays of equal length: rows, columns and distances.

    `distances` is None unless the join computed them.
    """

    rows: Any
    columns: Any
    distances: Any | None


class Result:
    """Rows of neighbours in compressed sparse row (CSR) format.

    The index of a point is the number of its row in the array of points, from 0. The neighbours of point i are
    ``indices[indptr[i]:indptr[i + 1]]``, and ``result[i]`` returns them. ``result[2:5]`` is a `Result` of these rows.
    Iterating over a result yields its rows. The arrays are views of the library's memory, which is freed with the last
    of them. For a join on a GPU they are arrays on that device, of the same package as the points.

    Attributes
    ----------
    indptr : array of int64
        Where each row begins. It has one entry more than there are rows.
    indices : array of int32
        The indices of the neighbours of all rows. int64 if there are more than 2**31 points. -1 fills up short rows of
        a kNN join.
    distances : array of float32 or float64, or None
        The distance of each neighbour, in the type of the points. None unless the join was called with
        ``distances=True``. Infinity fills up short rows of a kNN join.
    shape : tuple of int
        The number of rows, and the number of points that neighbours are taken from.
    first_row : int
        The index of the point of the first row. It is 0 except in a block or a slice of a larger result.

    Examples
    --------
    >>> import adjoin
    >>> result = adjoin.range_join([[0.0], [1.0], [1.5]], radius=1)
    >>> result
    Result(rows=3, pairs=4)
    >>> [row.tolist() for row in result]
    [[1], [0, 2], [1]]
    >>> result[1].tolist()
    [0, 2]
    >>> result[1:]
    Result(rows=2, pairs=3, first_row=1)
    >>> result.to_scipy().toarray().astype(int)
    array([[0, 1, 0],
           [1, 0, 1],
           [0, 1, 0]])
    """

    __slots__ = ("distances", "first_row", "indices", "indptr", "shape")

    indptr: Any
    indices: Any
    distances: Any | None
    shape: tuple[int, int]
    first_row: int

    def __init__(
        self, indptr: Any, indices: Any, distances: Any | None, shape: tuple[int, int], first_row: int = 0
    ) -> None:
        self.indptr = indptr
        self.indices = indices
        self.distances = distances
        self.shape = shape
        self.first_row = first_row

    def __repr__(self) -> str:
        block = f", first_row={self.first_row}" if self.first_row else ""
        return f"Result(rows={self.shape[0]}, pairs={self.indices.shape[0]}{block})"

    def __reduce__(self) -> Any:
        return Result, (self.indptr, self.indices, self.distances, self.shape, self.first_row)

    def __len__(self) -> int:
        return self.shape[0]

    def _bounds(self, row: Any) -> tuple[int, int]:
        try:
            number = operator.index(row)
        except TypeError:
            kind = type(row).__name__
            raise ArrayTypeError(f"a row is a whole number, not {kind}; result[2:5] takes several rows") from None
        if number < 0:
            number += self.shape[0]
        if not 0 <= number < self.shape[0]:
            raise IndexError(f"row {row} is out of range for a result of {self.shape[0]} rows")
        return int(self.indptr[number]), int(self.indptr[number + 1])

    def __getitem__(self, row: int | slice) -> Any:
        """The neighbours of a row, or a `Result` of consecutive rows."""
        if isinstance(row, slice):
            return self._slice(row)
        begin, end = self._bounds(row)
        return self.indices[begin:end]

    def _slice(self, rows: slice) -> Result:
        begin, end, step = rows.indices(self.shape[0])
        if step != 1:
            raise ArgumentError(f"a slice of a result must have step 1, not {step}; to_scipy()[...] takes any rows")
        end = max(begin, end)
        indptr = self.indptr[begin : end + 1]
        first, last = int(indptr[0]), int(indptr[-1])
        distances = None if self.distances is None else self.distances[first:last]
        shape = end - begin, self.shape[1]
        return Result(indptr - first, self.indices[first:last], distances, shape, self.first_row + begin)

    def distances_of(self, row: int) -> Any:
        """The distances of the neighbours of a row."""
        begin, end = self._bounds(row)
        return self._distances()[begin:end]

    def __iter__(self) -> Iterator[Any]:
        """The neighbours of each row."""
        bounds = self.indptr.tolist()
        for begin, end in zip(bounds, bounds[1:]):
            yield self.indices[begin:end]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        raise TypeError("a Result is not an array: use its indptr, indices and distances, or to_scipy()")

    def _distances(self) -> Any:
        if self.distances is None:
            raise ArgumentError("this result has no distances: call the join with distances=True")
        return self.distances

    @property
    def counts(self) -> Any:
        """The number of neighbours of each row."""
        return self.indptr[1:] - self.indptr[:-1]

    def to_coo(self) -> Coordinates:
        """All pairs, as arrays of rows, columns and distances. Rows are numbered from `first_row`.

        Examples
        --------
        >>> import adjoin
        >>> adjoin.range_join([[0.0], [1.0]], radius=1).to_coo()
        Coordinates(rows=array([0, 1], dtype=int32), columns=array([1, 0], dtype=int32), distances=None)
        """
        if isinstance(self.indptr, np.ndarray):
            last = self.first_row + self.shape[0]
            numbers = np.arange(self.first_row, last, dtype=np.int32 if last <= 1 << 31 else np.int64)
            rows: Any = np.repeat(numbers, self.counts)
        else:
            from ._device import row_numbers

            rows = row_numbers(self.indptr, self.indices, self.first_row)
        return Coordinates(rows, self.indices, self.distances)

    @property
    def edge_index(self) -> Any:
        """All pairs, as an int64 array of shape (2, pairs): rows first, then their neighbours.

        Examples
        --------
        >>> import adjoin
        >>> adjoin.range_join([[0.0], [1.0]], radius=1).edge_index
        array([[0, 1],
               [1, 0]])
        """
        rows, columns, _ = self.to_coo()
        if isinstance(rows, np.ndarray):
            edges = np.empty((2, len(rows)), np.int64)
            edges[0], edges[1] = rows, columns
            return edges
        from ._device import stack

        return stack(rows, columns)

    def to_scipy(self) -> csr_array:
        """A ``scipy.sparse.csr_array`` of the distances, or of ones if the result has no distances.

        `indices` and `distances` are not copied unless there are 2**31 entries or more. Rows of a block or slice are
        numbered from 0.
        """
        from scipy.sparse import csr_array

        if not isinstance(self.indptr, np.ndarray):
            raise ArgumentError("to_scipy: the result is on a GPU; copy its arrays to host memory first")
        wide = len(self.indices) >= 1 << 31 or self.indices.dtype == np.int64
        kind = np.int64 if wide else np.int32
        data = np.ones(len(self.indices)) if self.distances is None else self.distances
        parts = data, self.indices.astype(kind, copy=False), self.indptr.astype(kind, copy=False)
        return csr_array(parts, shape=self.shape, copy=False)
