# SPDX-License-Identifier: MIT
"""install, uninstall, and python -m adjoin."""

from __future__ import annotations

import copy
import logging
import os
import pickle
import subprocess
import sys
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoin
from adjoin import _install

spatial = pytest.importorskip("scipy.spatial")
POINTS = np.random.default_rng(1).random((200, 3))


@pytest.fixture(autouse=True)
def everything_is_undone() -> Iterator[None]:
    before = meanings()
    yield
    adjoin.uninstall()
    after = meanings()
    assert {name: after.get(name) for name in before} == before
    assert not [name for name, value in after.items() if getattr(value, "__module__", "") == _install.__name__]


def meanings() -> dict[tuple[str, str], Any]:
    """The objects that module names are bound to, for the names of replaced classes."""
    names = {row.name for rows in _install.TABLE.values() for row in rows}
    found = {}
    for name, module in list(sys.modules.items()):
        for key, value in list(vars(module).items()):
            named = isinstance(value, (type, types.FunctionType)) and value.__name__ in names
            if named and name != _install.__name__:
                found[name, key] = value
    return found


def imported(text: str) -> types.ModuleType:
    """A new module with this source text, as if it had been imported."""
    module = types.ModuleType(f"adjoin_test_{len(sys.modules)}")
    sys.modules[module.__name__] = module
    exec(text, vars(module))
    return module


def test_trees() -> None:
    original, earlier = spatial.KDTree, imported("from scipy.spatial import KDTree as Tree, cKDTree")
    kept = spatial.KDTree(POINTS)
    adjoin.install("scipy")
    assert issubclass(spatial.KDTree, adjoin.KDTree) and issubclass(spatial.cKDTree, adjoin.cKDTree)
    assert earlier.Tree is spatial.KDTree and earlier.cKDTree is spatial.cKDTree
    tree = spatial.KDTree(POINTS)
    for mine, right in zip(tree.query(POINTS, 3), kept.query(POINTS, 3)):
        np.testing.assert_allclose(mine, right, rtol=1e-14)
    assert tree.query_ball_tree(kept, 0.1) == kept.query_ball_tree(original(POINTS), 0.1)
    # Objects of all three classes are trees.
    for each in (tree, kept, adjoin.KDTree(POINTS)):
        assert isinstance(each, spatial.KDTree) and isinstance(each, spatial.cKDTree)
    assert not isinstance(POINTS, spatial.KDTree) and issubclass(spatial.KDTree, spatial.cKDTree)

    class Mine(spatial.KDTree):  # type: ignore[name-defined,misc]
        pass

    assert isinstance(Mine(POINTS), spatial.KDTree) and not isinstance(kept, Mine)
    later = imported("from scipy.spatial import KDTree\nfrom adjoin import KDTree as Ours, cKDTree")
    adjoin.install()
    adjoin.uninstall()
    assert spatial.KDTree is original and earlier.Tree is original and later.KDTree is original
    assert later.Ours is adjoin.KDTree and later.cKDTree is adjoin.cKDTree
    assert type(kept) is original and isinstance(tree, adjoin.KDTree)
    adjoin.uninstall()
    assert spatial.KDTree is original


def test_pickles() -> None:
    adjoin.install("scipy")
    tree = spatial.KDTree(POINTS)
    stored = pickle.dumps(tree)
    for again in (pickle.loads(stored), copy.deepcopy(tree)):
        assert type(again) is spatial.KDTree and np.array_equal(again.query(POINTS, 2)[1], tree.query(POINTS, 2)[1])
    text = f"import pickle; tree = pickle.loads({stored!r}); import adjoin; assert isinstance(tree, adjoin.KDTree)"
    subprocess.run([sys.executable, "-c", text], check=True)


def test_fallbacks_are_told(caplog: Any) -> None:
    with caplog.at_level(logging.INFO, "adjoin"):
        adjoin.install("scipy")
        assert [r.message.partition(" (")[0] for r in caplog.records] == [
            "install: scipy.spatial.KDTree is now that of adjoin.kdtree",
            "install: scipy.spatial.cKDTree is now that of adjoin.kdtree",
        ]
        caplog.clear()
        tree = spatial.KDTree(POINTS)
        tree.query(POINTS)
        assert not caplog.records
        assert tree.query_ball_point(POINTS[0], 0.2, p=0.5) and tree.size > 1
        assert [r.message for r in caplog.records] == [
            "KDTree: nodes, and norms with p < 1, come from SciPy's own tree"
        ]


def test_astropy_finds_its_trees() -> None:
    """astropy caches trees, and checks whether they are SciPy's."""
    pytest.importorskip("astropy")
    from astropy import units as u
    from astropy.coordinates import SkyCoord, match_coordinates_sky

    catalogue = SkyCoord(POINTS[:, 0] * u.deg, POINTS[:, 1] * u.deg)
    expected = match_coordinates_sky(catalogue, catalogue, 2)[0]
    for change in (adjoin.install, adjoin.uninstall):
        change()
        assert np.array_equal(match_coordinates_sky(catalogue, catalogue, 2)[0], expected)
        assert np.array_equal(match_coordinates_sky(catalogue, catalogue, 2, "other")[0], expected)
        catalogue.cache.pop("other")


def test_unknown_packages() -> None:
    with pytest.raises(adjoin.ArgumentError, match="'numpy' is not one of 'scipy', 'sklearn'"):
        adjoin.install("numpy")


def test_estimators() -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("adjoin.sklearn", exc_type=ModuleNotFoundError)
    import sklearn.base
    import sklearn.cluster
    import sklearn.manifold._isomap
    import sklearn.neighbors._graph

    originals = {row.name: _install._original(row) for row in _install.TABLE["sklearn"]}
    models = {name: kind() for name, kind in originals.items() if isinstance(kind, type)}
    labels = sklearn.cluster.DBSCAN(eps=0.1).fit_predict(POINTS)
    adjoin.install()
    for row in _install.TABLE["sklearn"]:
        now, ours = getattr(sys.modules[row.module], row.name), getattr(sys.modules[row.ours], row.name)
        assert now is not originals[row.name] and now.__name__ == row.name
        if isinstance(now, type):
            assert issubclass(now, ours) and isinstance(models[row.name], now)
            model = sklearn.base.clone(pickle.loads(pickle.dumps(now())))
            assert type(model) is now and model.get_params() == models[row.name].get_params()
    # Modules of scikit-learn that use these classes.
    assert issubclass(sklearn.manifold._isomap.NearestNeighbors, sys.modules["adjoin.sklearn"].NearestNeighbors)
    graph = sklearn.neighbors._graph.kneighbors_graph(POINTS, 3)
    assert np.array_equal(np.sort(graph.indices.reshape(-1, 3)), np.sort(adjoin.knn_join(POINTS, k=3)[1]))
    assert np.array_equal(sklearn.cluster.DBSCAN(eps=0.1).fit_predict(POINTS), labels)
    assert np.array_equal(sklearn.cluster.dbscan(POINTS, eps=0.1)[1], labels)
    adjoin.uninstall()
    for row in _install.TABLE["sklearn"]:
        assert getattr(sys.modules[row.module], row.name) is originals[row.name]


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(Path(adjoin.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-m", "adjoin", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)


def test_scripts(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("from scipy.spatial import cKDTree\n")
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys
            import adjoin
            import helper
            from scipy.spatial import KDTree
            assert __name__ == "__main__"
            assert issubclass(KDTree, adjoin.KDTree) and issubclass(helper.cKDTree, adjoin.cKDTree)
            print(sys.argv[1:], KDTree([[0.0], [1.0]]).query([0.9])[1])
            sys.exit(3)
            """
        )
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = run("--only", "scipy", "../script.py", "-v", "--only", folder=elsewhere)
    assert (done.returncode, done.stdout, done.stderr) == (3, "['-v', '--only'] 1\n", "")
    done = run("-v", "--only=scipy", "-m", "script", "x", folder=tmp_path)
    assert (done.returncode, done.stdout) == (3, "['x'] 1\n")
    assert "adjoin: install: scipy.spatial.KDTree is now that of adjoin.kdtree" in done.stderr


def test_the_program_without_a_script(tmp_path: Path) -> None:
    assert adjoin.__version__ in run(folder=tmp_path).stdout
    assert run("--version", folder=tmp_path).stdout == f"adjoin {adjoin.__version__}\n"
    done = run("--only=scipy", "none.py", folder=tmp_path)
    assert done.returncode == 1 and "none.py" in done.stderr
    assert run("--only", "numpy", "x.py", folder=tmp_path).returncode == 2
