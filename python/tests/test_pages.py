# SPDX-License-Identifier: MIT
"""Runs the code cells of the pages in docs/python. `make docs` also runs them, and shows their output."""

from __future__ import annotations

import functools
import re
import sys
import types
import warnings
from pathlib import Path

import pytest

PAGES = Path(__file__).resolve().parents[2] / "docs" / "python"
CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def cells(text: str) -> list[str]:
    """The cells of a page, each after as many empty lines as precede it on the page, so that line numbers agree."""
    return ["\n" * text.count("\n", 0, found.start(1)) + found[1] for found in CELL.finditer(text)]


def with_cells() -> list[Path]:
    return [page for page in sorted(PAGES.rglob("*.md")) if cells(page.read_text())]


def quick_umap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short UMAP without numba's compiler, which takes half a minute. `make docs` runs the full UMAP."""
    if "numba" not in sys.modules:
        monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        umap = pytest.importorskip("umap")
    monkeypatch.setattr(umap, "UMAP", functools.partial(umap.UMAP, n_epochs=1, init="random"))


@pytest.mark.parametrize("page", with_cells(), ids=lambda page: page.stem)
@pytest.mark.filterwarnings("default")  # other packages raise warnings
def test_page(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    monkeypatch.chdir(page.parent)
    if page.stem == "umap":
        quick_umap(monkeypatch)
    module = types.ModuleType("__main__")
    for cell in cells(page.read_text()):
        try:
            exec(compile(cell, page, "exec"), module.__dict__)
        except ModuleNotFoundError as missing:
            if str(missing.name).startswith("adjoin"):
                raise
            pytest.skip(f"{missing.name} is not installed")
    plt.close("all")


def test_there_are_pages() -> None:
    assert {"quickstart", "clusters", "truth", "from-scipy"} <= {page.stem for page in with_cells()}
