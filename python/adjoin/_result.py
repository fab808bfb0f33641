# SPDX-License-Identifier: MIT
"""What a range join returns: rows of neighbours."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ._arrays import Array
from ._errors import ArgumentError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["Coordinates", "Result"]


class Coordinates(NamedTuple):
    """Pairs one by one: row, column, and distance if there are distances."""

    rows: Any
    columns: Any
    distances: Any | None


class Result:
    """Rows of neighbours, as compressed sparse rows.

    Row i holds entries ``indptr[i]`` to ``indptr[i + 1] - 1`` of `indices` and `distances`. The arrays lie in the
    memory of the library, which is freed with the last of them. Those of a join on a GPU are arrays of the caller's
    kind on that device.

    Attributes
    ----------
    indptr : array of int64
        Where rows begin; one entry more than rows.
    indices : array of int32
        Neighbours (int64 where there are more than 2**31 points). Padding of a kNN row is -1.
    distances : array of float32 or float64, or None
        As the points; None unless the join was asked for them. Padding of a kNN row is infinite.
    shape : tuple of int
        The number of rows, and of points that neighbours are taken from.
    first_row : int
        The number of the first row: not 0 in a block of a larger result.

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
        number = operator.index(row)
        if number < 0:
            number += self.shape[0]
        if not 0 <= number < self.shape[0]:
            raise IndexError(f"row {row} of {self.shape[0]} rows")
        return int(self.indptr[number]), int(self.indptr[number + 1])

    def __getitem__(self, row: int) -> Any:
        """The neighbours of a row."""
        begin, end = self._bounds(row)
        return self.indices[begin:end]

    def distances_of(self, row: int) -> Any:
        """The distances of a row's neighbours."""
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
            raise ArgumentError("the join was not asked for distances: pass distances=True")
        return self.distances

    @property
    def counts(self) -> Any:
        """The number of neighbours of each row."""
        return self.indptr[1:] - self.indptr[:-1]

    def to_coo(self) -> Coordinates:
        """Pairs one by one: arrays of rows, columns and distances.

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
        """Pairs as an int64 array of shape (2, pairs): rows, then their neighbours.

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
        """A ``scipy.sparse.csr_array``: of the distances, or of ones where there are none.

        Indices are not copied unless there are 2**31 entries or more. Rows of a block are numbered from 0.
        """
        from scipy.sparse import csr_array

        if not isinstance(self.indptr, np.ndarray):
            raise ArgumentError("to_scipy: the result is on a GPU")
        wide = len(self.indices) >= 1 << 31 or self.indices.dtype == np.int64
        kind = np.int64 if wide else np.int32
        data = np.ones(len(self.indices)) if self.distances is None else self.distances
        parts = data, self.indices.astype(kind, copy=False), self.indptr.astype(kind, copy=False)
        return csr_array(parts, shape=self.shape, copy=False)
