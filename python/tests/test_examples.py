# SPDX-License-Identifier: MIT
"""Runs the examples in docstrings."""

from __future__ import annotations

import doctest
import pkgutil

import pytest

import adjoin

MODULES = ["adjoin", *(f"adjoin.{module.name}" for module in pkgutil.iter_modules(adjoin.__path__))]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    # An adapter is skipped if its package is not installed.
    module = pytest.importorskip(name, exc_type=ModuleNotFoundError)
    failures, _ = doctest.testmod(module)
    assert failures == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder()
    for function in (adjoin.range_join, adjoin.knn_join, adjoin.count, adjoin.pairs, adjoin.select_k, adjoin.Index):
        assert any(test.examples for test in finder.find(function, globs={})), function


@pytest.mark.parametrize("name", ["adjoin.astropy", "adjoin.dask", "adjoin.faiss", "adjoin.torch", "adjoin._install"])
def test_adapters_have_examples(name: str) -> None:
    module = pytest.importorskip(name, exc_type=ModuleNotFoundError)
    finder = doctest.DocTestFinder()
    for function in filter(callable, (getattr(module, each) for each in module.__all__)):
        assert any(test.examples for test in finder.find(function, globs={})), function
