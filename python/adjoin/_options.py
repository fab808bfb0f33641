# SPDX-License-Identifier: MIT
"""The options that all joins share: their names, their documentation, and their values for the library."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar

import numpy as np

from . import _declarations as d
from ._context import Context, context, default, whole
from ._errors import ArgumentError, ArrayTypeError

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

__all__ = ["JoinOptions", "METRICS", "Settings", "documented", "settings"]

METRICS: dict[str, int] = {
    "euclidean": d.ADJ_L2,
    "l2": d.ADJ_L2,
    "manhattan": d.ADJ_L1,
    "cityblock": d.ADJ_L1,
    "taxicab": d.ADJ_L1,
    "l1": d.ADJ_L1,
    "chebyshev": d.ADJ_LINF,
    "infinity": d.ADJ_LINF,
    "linf": d.ADJ_LINF,
    "minkowski": d.ADJ_LP,
    "lp": d.ADJ_LP,
    "p": d.ADJ_LP,
    "cosine": d.ADJ_COSINE,
    "dot": d.ADJ_DOT,
    "inner_product": d.ADJ_DOT,
    "ip": d.ADJ_DOT,
    "haversine": d.ADJ_HAVERSINE,
}
BACKENDS = {
    "auto": d.ADJ_BACKEND_AUTO,
    "cpu": d.ADJ_BACKEND_CPU,
    "gpu": d.ADJ_BACKEND_GPU,
    "hybrid": d.ADJ_BACKEND_HYBRID,
    "reference": d.ADJ_BACKEND_REFERENCE,
}
ORDERS = {"id": d.ADJ_ORDER_ID, "distance": d.ADJ_ORDER_DISTANCE, "any": d.ADJ_ORDER_ANY}
ANGLES = {"degrees": d.ADJ_DEGREES, "radians": d.ADJ_RADIANS}
UNITS = {"metres": d.ADJ_UNIT_METRES, "degrees": d.ADJ_UNIT_DEGREES, "radians": d.ADJ_UNIT_RADIANS}


class JoinOptions(TypedDict, total=False):
    """Options of all joins. All have defaults."""

    metric: str
    p: float
    box: float | Sequence[float] | NDArray[Any]
    angle: Literal["degrees", "radians"]
    unit: Literal["metres", "degrees", "radians"]
    sphere_radius: float
    backend: Literal["auto", "cpu", "gpu", "hybrid", "reference"]
    threads: int | None
    memory: int | str | None
    device: int | Sequence[int] | None
    dtype: DTypeLike
    columns: Sequence[str] | None
    progress: bool | Callable[[str, float, int], object]
    max_pairs: int | None
    algorithm: str | None
    tuning: str | None
    system: str | None


# For help() and completion: the options with their defaults.
_DEFAULTS: dict[str, Any] = {
    "metric": "euclidean",
    "p": None,
    "box": None,
    "angle": "degrees",
    "unit": "metres",
    "sphere_radius": None,
    "backend": "auto",
    "threads": None,
    "memory": None,
    "device": None,
    "dtype": None,
    "columns": None,
    "progress": False,
    "max_pairs": None,
    "algorithm": None,
    "tuning": None,
    "system": None,
}

_TEXT = """metric : str, default "euclidean"
        The distance: "euclidean" ("l2"), "manhattan" ("cityblock", "l1"), "chebyshev" ("linf"), "minkowski" with `p`,
        "cosine" (1 - the cosine of the angle), "dot" (the inner product, larger is nearer) or "haversine" (points
        are longitude, latitude).
    p : float, optional
        The exponent of "minkowski", by default 2. If `p` is given without `metric`, the metric is "minkowski". Other
        metrics ignore it.
    box : float or sequence of floats, optional
        The lengths of a periodic box: one for all dimensions, or one for each. A dimension of length 0 is not
        periodic.
    angle : {"degrees", "radians"}
        For "haversine": the unit of the coordinates.
    unit : {"metres", "degrees", "radians"}
        For "haversine": the unit of the radius and of the distances.
    sphere_radius : float, optional
        For "haversine": the radius of the sphere. By default that of the earth, 6371008.8 m.
    backend : {"auto", "cpu", "gpu", "hybrid", "reference"}
        Where to compute the join. The result does not depend on it.
    threads : int, optional
        The number of threads. By default one for each core that this process may use.
    memory : int or str, optional
        The largest amount of memory to use, in bytes or as a text such as "4G". By default 90 % of the memory that was
        available at the first call.
    device : int or sequence of ints, optional
        The numbers of the GPUs to use.
    dtype : float32 or float64, optional
        Convert the points to this type. By default f32 and f64 stay as they are, f16 becomes f32, and all other types
        and lists become f64 (integers beyond 2**53 are rounded). If one set is f32 and the other f64, both become f64.
    columns : sequence of str, optional
        The columns of a pandas, polars or pyarrow table that hold the coordinates. By default all columns. An error if
        the points are in no table.
    progress : bool or callable
        True shows a progress bar, if tqdm is installed. A callable is called as ``progress(phase, fraction, pairs)``
        about ten times a second.
    max_pairs : int, optional
        Raise `LimitError` if there are more pairs than this. None or 0: no limit.
    algorithm, tuning, system : str, optional
        How to compute the join, for experiments. The result does not depend on them."""

JoinOptions.__doc__ = f"""Options of all joins, as keywords. All have defaults.

    Parameters
    ----------
    {_TEXT}
    """

F = TypeVar("F", bound=Callable[..., Any])


def documented(*without: str) -> Callable[[F], F]:
    """Adds the options to the signature and the docstring of a function that takes them as keywords."""

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        options = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value)
            for name, value in _DEFAULTS.items()
            if name not in without
        ]
        function.__signature__ = signature.replace(parameters=own + options)  # type: ignore[attr-defined]
        if function.__doc__:
            function.__doc__ = function.__doc__.replace("{options}", _TEXT)
        return function

    return decorate


class Settings:
    """Checked options, as values for the library."""

    __slots__ = (
        "algorithm",
        "angle",
        "backend",
        "box",
        "columns",
        "context",
        "dtype",
        "max_pairs",
        "metric",
        "p",
        "place",
        "plain",
        "progress",
        "sphere_radius",
        "system",
        "tuning",
        "unit",
    )

    context: Context | None

    def __init__(self, **options: Any) -> None:
        unknown = options.keys() - _DEFAULTS.keys()
        if unknown:
            raise TypeError(f"got an unexpected keyword argument {sorted(unknown)[0]!r}")
        o = {**_DEFAULTS, **options}
        self.plain = not options
        self.context = None if self.plain else context(o["threads"], o["memory"], o["device"])
        self.place = o["threads"], o["memory"]
        self.metric, self.p = _metric(options.get("metric"), o["p"])
        self.backend = _choice("backend", o["backend"], BACKENDS)
        self.angle = _choice("angle", o["angle"], ANGLES)
        self.unit = _choice("unit", o["unit"], UNITS)
        self.sphere_radius = _number("sphere_radius", o["sphere_radius"] or 0.0)
        self.box = _box(o["box"])
        self.columns = o["columns"]
        self.dtype = _dtype(o["dtype"])
        self.progress = o["progress"]
        self.max_pairs = 0 if o["max_pairs"] is None else _whole("max_pairs", o["max_pairs"], 0, (1 << 64) - 1)
        self.algorithm, self.tuning, self.system = (
            _string(name, o[name]) for name in ("algorithm", "tuning", "system")
        )

    def get_context(self) -> Context:
        """The context of these options. The default one is looked up each time, because a process may fork."""
        return self.context or default()

    def on_device(self, number: int) -> Context:
        """The context of these options for points on a device."""
        return context(*self.place, number)

    def fill_index(self, options: d.adj_index_options) -> None:
        """Sets the options of an index."""
        options.metric = self.metric
        options.p = self.p
        options.backend = self.backend
        options.angle = self.angle
        options.unit = self.unit
        options.sphere_radius = self.sphere_radius
        if self.box is not None:
            options.box = self.box.ctypes.data
            options.box_count = len(self.box)

    def fill(self, spec: d.adj_join_spec) -> None:
        """Sets the options of a join."""
        self.fill_index(spec)  # type: ignore[arg-type]
        spec.algorithm = self.algorithm
        spec.tuning = self.tuning
        spec.system = self.system


def settings(options: Any) -> Settings:
    """The settings for these keywords. Without any, one shared object."""
    return Settings(**options) if options else _plain()


@functools.cache
def _plain() -> Settings:
    return Settings()


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ArrayTypeError(f"{name}: {value!r} is not a number") from None


def _choice(name: str, value: Any, values: dict[str, int]) -> int:
    if isinstance(value, str) and value.lower() in values:
        return values[value.lower()]
    raise ArgumentError(f"{name}: {value!r} is not one of {', '.join(values)}")


def order_of(value: str) -> int:
    """The library's value for the name of an order."""
    return _choice("order", value, ORDERS)


def _metric(metric: Any, p: Any) -> tuple[int, float]:
    kind = d.ADJ_L2 if metric is None else _choice("metric", metric, METRICS)
    if p is None:
        return kind, 2.0
    exponent = _number("p", p)
    if not exponent >= 1:
        raise ArgumentError(f"p: {p!r} is below 1")
    if metric is None:
        kind = d.ADJ_LP
    if kind != d.ADJ_LP:
        return kind, exponent
    return {1.0: d.ADJ_L1, 2.0: d.ADJ_L2, math.inf: d.ADJ_LINF}.get(exponent, d.ADJ_LP), exponent


def _box(box: Any) -> NDArray[np.float64] | None:
    if box is None:
        return None
    try:
        lengths = np.array(box, np.float64, ndmin=1)
    except (TypeError, ValueError):
        raise ArrayTypeError(f"box: {box!r} is neither one length nor one for each dimension") from None
    if lengths.ndim != 1:
        raise ArgumentError(f"box: shape {lengths.shape} is neither one length nor one for each dimension")
    return lengths


def _dtype(dtype: Any) -> np.dtype[Any] | None:
    if dtype is None:
        return None
    try:
        kind = np.dtype({"f32": np.float32, "f64": np.float64}.get(dtype, dtype) if isinstance(dtype, str) else dtype)
    except TypeError:
        raise ArrayTypeError(f"dtype: {dtype!r} is neither float32 nor float64") from None
    if kind not in (np.float32, np.float64):
        raise ArrayTypeError(f"dtype: {kind} is neither float32 nor float64")
    return kind


def _string(name: str, value: Any) -> bytes | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise ArrayTypeError(f"{name}: {value!r} is not a str")
    return value.encode()


def _whole(name: str, value: Any, least: int, most: int) -> int:
    number = whole(name, value)
    if not least <= number <= most:
        raise ArgumentError(f"{name}: {number} is not between {least} and {most}")
    return number


def k_of(k: Any) -> int:
    """The number of neighbours, checked."""
    return _whole("k", k, 1, 0xFFFFFFFE)
