"""Settings of a fit. A frozen dataclass: what it holds is what is saved and what is run."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from drogo.errors import ArgumentError, ArgumentTypeError

OBJECTIVES = ("gdo", "log_gdo", "natural_gdo", "drogo")


@dataclass(frozen=True)
class Config:
    """The paper's settings; `PRESETS` has others."""

    lam: float = 20.0
    """Temperature."""
    delta: float = 0.001
    """Reward of an absorbing end, sign turned (objectives without an anchor only)."""
    objective: str = "drogo"
    """gdo, log_gdo, natural_gdo or drogo."""
    network: str = "auto"
    """table, mlp, cnn, or auto: by the shape of the observations."""
    frequencies: int = 0
    """Fourier features of each coordinate for an MLP on at most `MOST_COORDINATES` numbers."""
    normalise: bool = False
    """Shift and scale vectors of numbers to [-0.5, 0.5] where they are far from that; by the data,
    kept with the fit. Bytes are always taken as n/255 - 0.5; but images for an MLP pixel by pixel,
    without those that never change."""
    optimiser: str = "rmsprop"
    """rmsprop or adam, with optax's defaults."""
    step_size: float = 1e-5
    schedule: str = "constant"
    """Of the step size: constant, or cosine, which ends at 0."""
    clip_norm: float = 0.5
    """Largest global norm of a gradient."""
    updates: int = 40_000
    batch_size: int = 2000
    ends: float = 0.0
    """Share of each batch that arrives at an end, where batches are drawn (not over a whole table).
    Ends are rare and everything hangs on them: without one in sight v drifts, and when one comes
    along its pull is clipped. Weights undo the choice, so that the average stays what it is."""
    full_batches: bool = False
    """Use all transitions in each update where the table is small enough for it to cost nothing."""
    cap: float | Literal["auto"] = math.inf
    """Largest v(s') - v(s) inside an exponential; auto: from the data, just above what the solution
    can have."""
    ceiling: bool = False
    """Hold v(s') at or below the best end, where the solution is."""
    target_rate: float = 1.0
    """Polyak rate of a target network for v(s'); 1 follows at once, which is no target network."""
    scaled: bool = False
    """Divide each state's equation by exp(-r/lam) (`drogo` only): costly states no longer
    dominate the gradient, and noisy rewards or rewards of the action get a meaning."""
    emphasis: float = 0.0
    """Weigh each state's equation by this power of how badly it is violated (`drogo` only, and
    only where an update sees all transitions, so that the violation is known and not a sample).
    The solution stays the same; a false source that holds up a region, a single state among
    hundreds, is no longer drowned by the rest."""
    penalty: float = 1.0
    """b, the weight of the norm penalty (objectives without an anchor only)."""
    target_norm: float = 1.0
    """c, what the mean of u^2 is held at (the same)."""
    tolerance: float = 0.1
    """Largest violation of an equation, relative to exp(-r/lam), of a converged fit; but never more
    than half of that of the vector that is zero everywhere. (Their mean is small already when a
    single wrong state holds up a whole wrong region.)"""

    def __post_init__(self) -> None:
        for name in ("lam", "delta", "step_size", "clip_norm", "target_norm", "tolerance"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ArgumentError(f"{name} is {value}; it must be a positive number.")
        for name in ("updates", "batch_size"):
            if getattr(self, name) < 1:
                raise ArgumentError(f"{name} is {getattr(self, name)}; it must be at least 1.")
        if self.objective not in OBJECTIVES:
            raise ArgumentError(
                f"objective is {self.objective!r}; choose one of {', '.join(OBJECTIVES)}."
            )
        if not (math.isfinite(self.penalty) and self.penalty >= 0):
            raise ArgumentError(f"penalty is {self.penalty}; it must not be negative.")
        if not (math.isfinite(self.emphasis) and self.emphasis >= 0):
            raise ArgumentError(f"emphasis is {self.emphasis}; it must not be negative.")
        if not 0 <= self.ends < 1:
            raise ArgumentError(
                f"ends is {self.ends}; it is a share of a batch, from 0 to below 1."
            )
        if not 0 < self.target_rate <= 1:
            raise ArgumentError(f"target_rate is {self.target_rate}; it must lie in (0, 1].")
        if self.frequencies < 0:
            raise ArgumentError(f"frequencies is {self.frequencies}; it must not be negative.")
        if self.cap != "auto" and not self.cap > 0:
            raise ArgumentError(f"cap is {self.cap}; it must be positive, inf for none, or 'auto'.")
        for name, choices in (
            ("network", ("auto", "table", "mlp", "cnn")),
            ("optimiser", ("rmsprop", "adam")),
            ("schedule", ("constant", "cosine")),
        ):
            if getattr(self, name) not in choices:
                raise ArgumentError(
                    f"{name} is {getattr(self, name)!r}; choose one of {', '.join(choices)}."
                )


MOST_COORDINATES = 16
"""Observations with more numbers than this are no coordinates, and get no Fourier features."""

PRESETS: dict[str, Config] = {
    "paper": Config(),
    "fast": Config(
        frequencies=8,
        normalise=True,
        optimiser="adam",
        step_size=1e-3,
        schedule="cosine",
        updates=5000,
        full_batches=True,
        cap="auto",
        ceiling=True,
        emphasis=0.5,
    ),
    "stable": Config(
        frequencies=8,
        normalise=True,
        optimiser="adam",
        step_size=1e-3,
        schedule="cosine",
        updates=15_000,
        batch_size=1000,
        ends=0.1,
        cap="auto",
        ceiling=True,
        target_rate=0.3,
    ),
}


ON_IMAGES: dict[str, dict[str, Any]] = {
    "fast": {"updates": 4000, "step_size": 8e-4},
    "stable": {"updates": 3000, "step_size": 5e-4, "batch_size": 128},
}
"""What a preset changes for images: there an update costs more and achieves more, and long steps
now and then kill a part of the network that never comes back."""

OF_A_TABLE = {"step_size": 0.05}
"""What `fast` and `stable` change where observations are numbers of states: each value then moves
by itself, no other one is disturbed, and it has as far to go as v is deep."""


MOST_STATES_OF_FAST = 2 * PRESETS["fast"].batch_size
"""Beyond, a table is not evaluated as a whole, on which the fast preset relies."""
MOST_BYTES_OF_FAST = 2**28
MANY_IMAGES = 500
"""Of one scene: from here on an MLP on the pixels that change is as good as the CNN, and about
thirty times faster."""
FLAT: dict[str, dict[str, Any]] = {
    "fast": {"network": "mlp", "batch_size": 2 * PRESETS["fast"].batch_size},
    "stable": {"network": "mlp"},
}
"""For such images. Evaluating a whole table is then cheap up to twice as many states."""


def make(preset: str, overrides: dict[str, Any], *, ndim: int = 2) -> Config:
    """A preset with some settings changed; an unknown name is an error. `ndim` is that of a table
    of observations: 1 for numbers of states, 4 for images."""
    if preset not in PRESETS:
        raise ArgumentError(f"preset is {preset!r}; choose one of {', '.join(PRESETS)}, auto.")
    known = {field.name for field in fields(Config)}
    unknown = set(overrides) - known
    if unknown:
        raise ArgumentTypeError(
            f"unknown setting(s) {', '.join(sorted(unknown))}; known: {', '.join(sorted(known))}."
        )
    adapted = {}
    if ndim == 4 and overrides.get("network") != "mlp":
        adapted = ON_IMAGES.get(preset, {})
    elif ndim == 1 and preset != "paper" and overrides.get("objective", "drogo") == "drogo":
        adapted = OF_A_TABLE
    return replace(PRESETS[preset], **{**adapted, **overrides})


def make_for(data: Any, preset: str, overrides: dict[str, Any]) -> Config:
    """The same for some transitions; `auto` is what suits them."""
    ndim = data.observations.ndim
    if preset != "auto":
        return make(preset, overrides, ndim=ndim)
    m = len(data.observations)
    small = data.repeats and data.observations.nbytes <= MOST_BYTES_OF_FAST
    flat = small and ndim == 4 and m > MANY_IMAGES and "network" not in overrides
    few = m <= (2 if flat else 1) * MOST_STATES_OF_FAST
    preset = "fast" if small and few else "stable"
    return make(preset, {**(FLAT[preset] if flat else {}), **overrides}, ndim=ndim)


def choices(preset: str, overrides: dict[str, Any], *, ndim: int) -> list[Config]:
    """All that `make_for` may make of these, whatever the data."""
    if preset != "auto":
        return [make(preset, overrides, ndim=ndim)]
    may_be_flat = ndim == 4 and "network" not in overrides
    return [
        make(name, {**extra, **overrides}, ndim=ndim)
        for name, flat in FLAT.items()
        for extra in (({}, flat) if may_be_flat else ({},))
    ]


def as_json(config: Config) -> dict[str, Any]:
    """JSON has no infinity; `cap` says "none" instead."""
    values = {field.name: getattr(config, field.name) for field in fields(Config)}
    values["cap"] = "none" if config.cap == math.inf else config.cap
    return values


def from_json(values: dict[str, Any]) -> Config:
    known = {field.name for field in fields(Config)}
    if set(values) != known:
        raise ArgumentError(
            f"these settings are from another version: {sorted(set(values) ^ known)} differ."
        )
    return Config(**{**values, "cap": math.inf if values["cap"] == "none" else values["cap"]})
