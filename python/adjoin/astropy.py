# SPDX-License-Identifier: MIT
"""Catalogue matching with the interface of astropy: the four matching functions of ``astropy.coordinates``, faster.

Arguments, types, frames, units and exceptions are those of astropy. The differences are:

- Of several sources at the same distance, the one with the lower index is the match.
- The pairs of a search are ordered by the first index, then by the second.
- `storekdtree` names a tree of this package, which astropy's own functions do not use. Its name in the cache is
  ``"adjoin_" + storekdtree``.

As in astropy, a search includes pairs at exactly the limit, up to rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from astropy.coordinates import Angle, SkyCoord, UnitSphericalRepresentation, matching
from astropy.units import dimensionless_unscaled

from ._arrays import Array
from .kdtree import KDTree

__all__ = ["match_coordinates_3d", "match_coordinates_sky", "search_around_3d", "search_around_sky"]


def match_coordinates_3d(
    matchcoord: Any, catalogcoord: Any, nthneighbor: int = 1, storekdtree: bool | str = "kdtree_3d"
) -> Any:
    """For each coordinate, the nearest source of a catalogue in space.

    Parameters
    ----------
    matchcoord : SkyCoord or frame
        The coordinates to match.
    catalogcoord : SkyCoord or frame
        The catalogue, an array of coordinates.
    nthneighbor : int
        Which neighbour to return: 1 is the nearest. Use 2 to match a catalogue with itself.
    storekdtree : bool or str
        The name under which the catalogue's cache keeps the tree, which makes the next call faster. False: do not
        keep it.

    Returns
    -------
    indices_to_catalog, angular_separation, physical_separation
        As astropy returns them.

    Examples
    --------
    >>> from astropy import units as u
    >>> from astropy.coordinates import SkyCoord
    >>> from adjoin.astropy import match_coordinates_3d
    >>> catalogue = SkyCoord([10, 20] * u.deg, [0, 0] * u.deg, distance=[5, 1] * u.pc)
    >>> found, angle, distance = match_coordinates_3d(SkyCoord(11 * u.deg, 0 * u.deg, distance=1 * u.pc), catalogue)
    >>> int(found), round(float(distance.to_value(u.pc)), 3)
    (1, 0.157)
    """
    _refuse_scalar(catalogcoord)
    tree = _tree(catalogcoord, storekdtree)
    match = _in_frame_of(matchcoord, catalogcoord)
    unit = catalogcoord.cartesian.x.unit
    distances, indices = _nth_nearest(tree, match.cartesian.xyz.to(unit), nthneighbor)
    return _result("CoordinateMatchResult", indices, _angles(catalogcoord, indices, match), distances * unit)


def match_coordinates_sky(
    matchcoord: Any, catalogcoord: Any, nthneighbor: int = 1, storekdtree: bool | str = "kdtree_sky"
) -> Any:
    """For each coordinate, the nearest source of a catalogue on the sky.

    Parameters
    ----------
    matchcoord, catalogcoord, nthneighbor, storekdtree
        As for `match_coordinates_3d`.

    Returns
    -------
    indices_to_catalog, angular_separation, physical_separation
        As astropy returns them. If the coordinates have no distances, the last one is measured on the unit sphere.

    Examples
    --------
    >>> from astropy import units as u
    >>> from astropy.coordinates import SkyCoord
    >>> from adjoin.astropy import match_coordinates_sky
    >>> catalogue = SkyCoord([10, 20] * u.deg, [0, 0] * u.deg)
    >>> found, angle, _ = match_coordinates_sky(SkyCoord([11, 19] * u.deg, [0, 0] * u.deg), catalogue)
    >>> found.tolist(), angle.deg.round(6).tolist()
    ([0, 1], [1.0, 1.0])
    """
    _refuse_scalar(catalogcoord)
    match = _in_frame_of(matchcoord, catalogcoord)
    tree = _tree(catalogcoord, storekdtree, on_sphere=True)
    chords, indices = _nth_nearest(tree, _on_sphere(match).cartesian.xyz, nthneighbor)
    if any(isinstance(each.data, UnitSphericalRepresentation) for each in (catalogcoord, match)):
        distances: Any = chords * dimensionless_unscaled
    else:
        distances = catalogcoord[indices].separation_3d(match)
    return _result("CoordinateMatchResult", indices, _angles(catalogcoord, indices, match), distances)


def search_around_3d(coords1: Any, coords2: Any, distlimit: Any, storekdtree: bool | str = "kdtree_3d") -> Any:
    """All pairs of sources of two catalogues that are near each other in space.

    Parameters
    ----------
    coords1, coords2 : SkyCoord or frame
        The catalogues, one-dimensional arrays of coordinates.
    distlimit : Quantity
        The largest distance, a length: one for all, or one for each of `coords1`.
    storekdtree : bool or str
        The name under which the cache of `coords2` keeps the tree. False: do not keep it.

    Returns
    -------
    indices_to_first_set, indices_to_second_set, angular_separation, physical_separation
        As astropy returns them.

    Examples
    --------
    >>> from astropy import units as u
    >>> from astropy.coordinates import SkyCoord
    >>> from adjoin.astropy import search_around_3d
    >>> stars = SkyCoord([10, 20, 30] * u.deg, [0, 0, 0] * u.deg, distance=[1, 1, 9] * u.pc)
    >>> first, second, _, _ = search_around_3d(stars, stars, 0.5 * u.pc)
    >>> first.tolist(), second.tolist()
    ([0, 0, 1, 1, 2], [0, 1, 0, 1, 2])
    """
    _refuse_shapes("search_around_3d", coords1, coords2)
    tree = _tree(coords2, storekdtree)
    unit = coords2.cartesian.x.unit
    coords1 = coords1.transform_to(coords2)
    first, second = _around(tree, coords1.cartesian.xyz.to(unit), distlimit.to_value(unit))
    left, right = coords1[first], coords2[second]
    return _result("CoordinateSearchResult", first, second, left.separation(right), left.separation_3d(right))


def search_around_sky(coords1: Any, coords2: Any, seplimit: Any, storekdtree: bool | str = "kdtree_sky") -> Any:
    """All pairs of sources of two catalogues that are near each other on the sky.

    Parameters
    ----------
    coords1, coords2 : SkyCoord or frame
        The catalogues, one-dimensional arrays of coordinates.
    seplimit : Quantity
        The largest separation, an angle: one for all, or one for each of `coords1`.
    storekdtree : bool or str
        The name under which the cache of `coords2` keeps the tree. False: do not keep it.

    Returns
    -------
    indices_to_first_set, indices_to_second_set, angular_separation, physical_separation
        As astropy returns them. If the coordinates have no distances, the last one is measured on the unit sphere.

    Examples
    --------
    >>> from astropy import units as u
    >>> from astropy.coordinates import SkyCoord
    >>> from adjoin.astropy import search_around_sky
    >>> stars = SkyCoord([10, 20] * u.deg, [0, 0] * u.deg)
    >>> first, second, angle, _ = search_around_sky(stars, SkyCoord([10.5] * u.deg, [0] * u.deg), 1 * u.deg)
    >>> first.tolist(), second.tolist(), angle.deg.round(6).tolist()
    ([0], [0], [0.5])
    """
    _refuse_shapes("search_around_sky", coords1, coords2)
    coords1 = coords1.transform_to(coords2)
    tree = _tree(coords2, storekdtree, on_sphere=True)
    # The chord of the angle.
    radius = (2 * np.sin(Angle(0.5 * seplimit))).value
    first, second = _around(tree, _on_sphere(coords1).cartesian.xyz, radius)
    left, right = coords1[first], coords2[second]
    angles = left.separation(right)
    try:
        distances = left.separation_3d(right)
    except ValueError:  # there are no distances
        distances = 2 * np.sin(0.5 * angles)
    return _result("CoordinateSearchResult", first, second, angles, distances)


def _result(name: str, *parts: Any) -> Any:
    """A named tuple of astropy, or a plain tuple for older versions that have none."""
    kind = getattr(matching, name, None)
    return parts if kind is None else kind(*parts)


def _refuse_scalar(catalogue: Any) -> None:
    if catalogue.isscalar or len(catalogue) < 1:
        raise ValueError("The catalog for coordinate matching cannot be a scalar or length-0.")


def _refuse_shapes(name: str, coords1: Any, coords2: Any) -> None:
    if coords1.ndim != 1 or coords2.ndim != 1:
        scalar = coords1.isscalar or coords2.isscalar
        hint = " With a scalar array, use ``coord1.separation(coord2) < seplimit``." if scalar else ""
        raise ValueError(f"{name} only supports 1-dimensional coordinate arrays.{hint}")


def _in_frame_of(coords: Any, catalogue: Any) -> Any:
    if isinstance(coords, SkyCoord):
        return coords.transform_to(catalogue, merge_attributes=False)
    return coords.transform_to(catalogue)


def _on_sphere(coords: Any) -> Any:
    """The same directions without distances."""
    return coords.realize_frame(coords.data.represent_as(UnitSphericalRepresentation))


def _rows(xyz: Any) -> Array:
    """Coordinates as points, one per row."""
    flat: Array = np.ascontiguousarray(xyz.value.reshape(3, -1).T, np.float64)
    return flat


def _tree(coords: Any, name: bool | str, on_sphere: bool = False) -> KDTree:
    """The tree of a catalogue, from its cache or new."""
    if name is not None and not isinstance(name, (bool, str)):
        raise TypeError(f"storekdtree: {name!r} is neither a bool nor a str")
    key = f"adjoin_{'kdtree' if name is True else name}"
    kept = coords.cache.get(key) if name else None
    if isinstance(kept, tuple) and kept[0] == on_sphere:
        tree: KDTree = kept[1]
        return tree
    points = _rows((_on_sphere(coords) if on_sphere else coords).cartesian.xyz)
    if np.isnan(points).any():
        raise ValueError("Catalog coordinates cannot contain NaN entries.")
    tree = KDTree(points)
    if name:
        coords.cache[key] = (on_sphere, tree)
    return tree


def _nth_nearest(tree: KDTree, xyz: Any, nth: int) -> tuple[Array, Array]:
    """Distance and index of the nth nearest of each point, in the shape of the coordinates."""
    points = _rows(xyz)
    if np.isnan(points).any():
        raise ValueError("Matching coordinates cannot contain NaN entries.")
    distances, indices = tree.query(points, [nth])
    shape = xyz.shape[1:]
    return distances.reshape(shape), indices.reshape(shape)


def _angles(catalogue: Any, indices: Array, match: Any) -> Any:
    """The separations on the sky. For a scalar this is an array of one, as in astropy."""
    return catalogue[indices.reshape(-1) if match.isscalar else indices].separation(match)


def _around(tree: KDTree, xyz: Any, radius: Any) -> tuple[Array, Array]:
    """Pairs of points and their neighbours in a tree."""
    points = _rows(xyz)
    if np.isnan(points).any():
        raise ValueError("Catalog coordinates cannot contain NaN entries.")
    if np.ndim(radius) and len(radius) != len(points):
        raise ValueError(f"the limit has {len(radius)} values, and there are {len(points)} coordinates")
    first, second = tree.query_ball_csr(points, radius).edge_index
    return first, second
