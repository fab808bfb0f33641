# SPDX-License-Identifier: MIT
"""show_config: the library, threads, memory and GPUs that this package uses."""

from __future__ import annotations

import ctypes
import sys
from typing import Any, Literal, overload

import numpy as np

from . import _declarations as d
from ._context import default
from ._library import fresh, lib, path

__all__ = ["show_config"]


def _devices() -> list[str]:
    found: list[str] = []
    while True:
        device = fresh(d.adj_device)
        if lib.adj_device_describe(len(found), ctypes.byref(device)):
            return found
        gib = device.memory / (1 << 30)
        found.append(f"{device.name.decode()}, compute capability {device.major}.{device.minor}, {gib:.0f} GiB")


@overload
def show_config(mode: Literal["stdout"] = "stdout") -> None: ...
@overload
def show_config(mode: Literal["dicts"]) -> dict[str, Any]: ...
def show_config(mode: Literal["stdout", "dicts"] = "stdout") -> dict[str, Any] | None:
    """Shows the version, the library, and the threads, memory, instruction set and GPUs in use.

    Parameters
    ----------
    mode : {"stdout", "dicts"}
        "stdout" prints them, "dicts" returns them as a dictionary.

    Examples
    --------
    >>> import adjoin
    >>> adjoin.show_config("dicts")["version"] == adjoin.__version__
    True
    """
    context = default().handle
    costs = lib.adj_ctx_costs(context)
    config = {
        "version": lib.adj_version_string().decode(),
        "library": path,
        "features": lib.adj_build_features().decode(),
        "instruction set": lib.adj_ctx_isa(context).decode(),
        "threads": f"{lib.adj_ctx_threads(context)} ({lib.adj_ctx_threads_from(context).decode()})",
        "memory": f"{lib.adj_ctx_memory_limit(context)} bytes ({lib.adj_ctx_memory_from(context).decode()})",
        "costs": "built in" if costs is None else costs.decode(errors="replace"),
        "devices": _devices(),
        "python": sys.version.split()[0],
        "numpy": np.__version__,
    }
    if mode == "dicts":
        return config
    for name, value in config.items():
        print(f"{name:16} {', '.join(value) or 'none' if isinstance(value, list) else value}")
    return None
