# SPDX-License-Identifier: MIT
"""``python -m adjoin script.py``: runs a script in which adjoin's classes replace those of SciPy and scikit-learn."""

from __future__ import annotations

import argparse
import logging
import os
import runpy
import sys

from . import __version__, _install, show_config


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m adjoin",
        description="Run a script in which adjoin's classes replace the trees of scipy.spatial and the neighbour "
        "estimators and DBSCAN of scikit-learn. Without a script, print adjoin's configuration.",
    )
    packages = list(_install.TABLE)
    parser.add_argument("--only", action="append", choices=packages, help="replace the classes of this package only")
    parser.add_argument("-v", "--verbose", action="store_true", help="log what is replaced, and calls of the originals")
    parser.add_argument("--version", action="version", version=f"adjoin {__version__}")
    parser.add_argument("-m", dest="module", action="store_true", help="the script is the name of a module")
    parser.add_argument("script", nargs="?", help="a file, or with -m the name of a module")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the script")
    return parser


def main(arguments: list[str] | None = None) -> None:
    """Installs adjoin's classes, and runs a script."""
    asked = _parser().parse_args(arguments)
    if asked.verbose:
        logging.basicConfig(format="adjoin: %(message)s")
        logging.getLogger("adjoin").setLevel(logging.INFO)
    if asked.script is None:
        show_config()
        return
    _install.install(*(asked.only or ()))
    sys.argv = [asked.script, *asked.arguments]
    if asked.module:
        sys.path[0] = os.getcwd()
        runpy.run_module(asked.script, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(asked.script))
        runpy.run_path(asked.script, run_name="__main__")


if __name__ == "__main__":
    main()
