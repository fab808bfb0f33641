# SPDX-License-Identifier: MIT
"""Catalogue matching against astropy's own functions: the same results in the same types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("astropy")

from astropy import coordinates as theirs  # noqa: E402
from astropy import units as u  # noqa: E402
from astropy.coordinates import FK5, ICRS, SkyCoord  # noqa: E402

from adjoin import astropy as ours  # noqa: E402


def sky(seed: int, n: int, distance: bool = False, kind: Any = SkyCoord) -> Any:
    """Sources in a field of 4 x 4 degrees."""
    rng = np.random.default_rng(seed)
    more = {"distance": rng.uniform(1, 2, n) * u.kpc} if distance else {}
    return kind(rng.uniform(-2, 2, n) * u.deg, rng.uniform(58, 62, n) * u.deg, **more)


def assert_same(found: Any, expected: Any, exact: int) -> None:
    """The same tuple: the first `exact` entries are equal, and quantities are equal up to rounding."""
    assert type(found) is type(expected) and len(found) == len(expected)
    for place, (mine, right) in enumerate(zip(found, expected)):
        assert type(mine) is type(right) and mine.shape == right.shape
        if place < exact:
            assert mine.dtype == right.dtype and np.array_equal(mine, right)
        else:
            assert mine.unit == right.unit
            np.testing.assert_allclose(mine.value, right.value, rtol=1e-9, atol=1e-15)


def sorted_pairs(result: Any) -> Any:
    """The result of a search, sorted by both indices, because astropy does not specify the order of the second."""
    order = np.lexsort((result[1], result[0]))
    return type(result)(*(part[order] for part in result))


CATALOGUES = [
    pytest.param(sky(1, 300), sky(2, 700), id="unit sphere"),
    pytest.param(sky(1, 300, True), sky(2, 700, True), id="distances"),
    pytest.param(sky(1, 300), sky(2, 700, True), id="one with distances"),
    pytest.param(sky(1, 300).galactic, sky(2, 700), id="two frames"),
    pytest.param(sky(1, 300, kind=ICRS), sky(2, 700, kind=FK5), id="frames without SkyCoord"),
    pytest.param(sky(1, 1)[0], sky(2, 700), id="a scalar"),
]


@pytest.mark.parametrize("nth", [1, 2, 5])
@pytest.mark.parametrize("first, second", CATALOGUES)
def test_matches_on_the_sky(first: Any, second: Any, nth: int) -> None:
    expected = theirs.match_coordinates_sky(first, second, nth, storekdtree=False)
    assert_same(ours.match_coordinates_sky(first, second, nth, storekdtree=False), expected, 1)


@pytest.mark.parametrize("nth", [1, 3])
@pytest.mark.parametrize("first, second", [each for each in CATALOGUES if each.id != "one with distances"])
def test_matches_in_space(first: Any, second: Any, nth: int) -> None:
    expected = theirs.match_coordinates_3d(first, second, nth, storekdtree=False)
    assert_same(ours.match_coordinates_3d(first, second, nth, storekdtree=False), expected, 1)


@pytest.mark.parametrize("first, second", CATALOGUES[:-1])
def test_searches_on_the_sky(first: Any, second: Any) -> None:
    for limit in (0.2 * u.deg, 700 * u.arcsec, np.linspace(0, 0.3, len(first)) * u.deg):
        expected = theirs.search_around_sky(first, second, limit, storekdtree=False)
        assert len(expected[0]) > 50
        assert_same(ours.search_around_sky(first, second, limit, storekdtree=False), sorted_pairs(expected), 2)


def test_searches_in_space() -> None:
    first, second = sky(1, 300, True), sky(2, 700, True)
    for limit in (40 * u.pc, np.linspace(0, 0.06, 300) * u.kpc):
        expected = theirs.search_around_3d(first, second, limit, storekdtree=False)
        assert len(expected[0]) > 50
        assert_same(ours.search_around_3d(first, second, limit, storekdtree=False), sorted_pairs(expected), 2)


def test_a_shape_and_no_pairs() -> None:
    first, second = sky(1, 6), sky(2, 700)
    flat = ours.match_coordinates_sky(first, second)
    shaped = ours.match_coordinates_sky(first.reshape(2, 3), second)
    assert np.array_equal(shaped[0], flat[0].reshape(2, 3)) and np.array_equal(shaped[1], flat[1].reshape(2, 3))
    for empty in ((first, second, 0 * u.deg), (first[:0], second, 1 * u.deg), (first, second[:0], 1 * u.deg)):
        found = ours.search_around_sky(*empty, storekdtree=False)
        assert [part.shape for part in found] == 4 * [(0,)] and found[0].dtype == np.int64


def test_ties_go_to_the_lower_index() -> None:
    catalogue = SkyCoord([20, 10, 10, 10] * u.deg, [0, 0, 0, 0] * u.deg)
    assert ours.match_coordinates_sky(catalogue, catalogue)[0].tolist() == [0, 1, 1, 1]
    assert ours.match_coordinates_sky(catalogue, catalogue, 2)[0].tolist() == [1, 2, 2, 2]


def test_trees_are_kept_and_do_not_disturb_astropy() -> None:
    first, second = sky(1, 100, True), sky(2, 500, True)
    expected = ours.match_coordinates_sky(first, second)
    assert isinstance(second.cache["adjoin_kdtree_sky"][1], ours.KDTree)
    assert np.array_equal(ours.match_coordinates_sky(first, second)[0], expected[0])
    assert np.array_equal(theirs.match_coordinates_sky(first, second)[0], expected[0])
    # One name can be used for both kinds of trees.
    space, sky_only = "match_coordinates_3d", "match_coordinates_sky"
    for function, name in ((space, "x"), (sky_only, "x"), (space, True)):
        again = getattr(ours, function)(first, second, storekdtree=name)
        assert np.array_equal(again[0], getattr(theirs, function)(first, second, storekdtree=False)[0])


def test_exceptions() -> None:
    first, second = sky(1, 5), sky(2, 9)
    for module in (theirs, ours):
        with pytest.raises(ValueError, match="cannot be a scalar or length-0"):
            module.match_coordinates_sky(first, second[0])
        with pytest.raises(ValueError, match="cannot be a scalar or length-0"):
            module.match_coordinates_3d(first, second[:0])
        with pytest.raises(ValueError, match="only supports 1-dimensional"):
            module.search_around_sky(first[0], second, 1 * u.deg)
        with pytest.raises(ValueError):
            module.search_around_sky(first, second, [1, 2] * u.deg)
        with pytest.raises(u.UnitsError):
            module.search_around_sky(first, second, 1 * u.pc)
        with pytest.raises(ValueError, match="NaN"):
            module.match_coordinates_sky(SkyCoord([np.nan, 1] * u.deg, [0, 0] * u.deg), second)
        with pytest.raises(ValueError, match="NaN"):
            module.match_coordinates_sky(first, SkyCoord([np.nan, 1] * u.deg, [0, 0] * u.deg))
