# SPDX-License-Identifier: MIT
"""The site of the Python package. `make docs` builds it in build/docs, runs every page, and fails on a warning."""

import os
import re
from pathlib import Path

# Kernels inherit these. Plots look alike without a line about it in the pages. A plan does not depend on what was measured
# on this machine before. And two pages run at once, so other packages have one thread each.
os.environ["MATPLOTLIBRC"] = str(Path(__file__).parent / "matplotlibrc")
os.environ.setdefault("ADJOIN_COSTS", "none")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import adjoin.sklearn  # noqa: E402, F401 - before torch is mocked, which scikit-learn would look at

project = "adjoin"
author = "the authors of adjoin"
release = (Path(__file__).parents[2] / "VERSION").read_text().strip()

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]

# Pages are MyST Markdown. Those with code cells are notebooks, and an exception in a cell ends the build.
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_merge_streams = True

# Names in docstrings stand between single backquotes.
default_role = "py:obj"
autodoc_mock_imports = ["torch"]
autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_numpy_docstring = True
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
python_maximum_signature_line_length = 88
add_module_names = False

html_theme = "furo"
html_title = "adjoin for Python"
html_static_path = ["_static"]
html_css_files = ["adjoin.css"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1b5e8c", "color-brand-content": "#1b5e8c"},
    "dark_css_variables": {"color-brand-primary": "#7fb8e0", "color-brand-content": "#7fb8e0"},
}
copybutton_exclude = ".linenos, .gp, .go"


# All joins have the options of JoinOptions, and help() shows them in full. Here they are shown once.


def _shorten_signature(app, what, name, obj, options, signature, returns):
    if signature and what in ("function", "class"):
        signature = re.sub(r", metric='euclidean', p=None, box=None,.*\)$", ", **options)", signature)
    return signature, returns


def _shorten_docstring(app, what, name, obj, options, lines):
    first = next((at for at, line in enumerate(lines) if line.startswith("metric : str, default")), None)
    if first is None or name == "adjoin.JoinOptions":
        return
    last = next(at for at in range(first, len(lines)) if not lines[at].strip())
    lines[first:last] = ["**options", "    Those of `JoinOptions`: `metric`, `backend`, `threads`, `memory` and others."]


def setup(app):
    app.connect("autodoc-process-signature", _shorten_signature)
    app.connect("autodoc-process-docstring", _shorten_docstring, priority=400)  # before napoleon reads it
