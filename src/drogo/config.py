"""`Config`, the settings of a fit, and `PRESETS`, the named sets of them.

This file imports nothing heavy: the command line builds its options from `Config`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import Any, Literal, Protocol, runtime_checkable

from drogo.errors import (
    ArgumentError,
    ArgumentTypeError,
    check_choice,
    check_number,
    check_whole,
)

CHOICES = {
    "network": ("auto", "table", "mlp", "cnn"),
    "optimiser": ("rmsprop", "adam"),
    "schedule": ("constant", "cosine"),
    "objective": ("gdo", "log_gdo", "natural_gdo", "drogo", "q"),
}
BEYOND_SINGLE = 1e38
"""Networks compute in single precision, which has no larger numbers."""
MOST_UNITS = 2**16
"""More units, layers or frequencies than this are no network that fits into memory."""
CUSTOM = "custom"
"""The name that a configuration records for a network, optimiser, objective or schedule of the
user's own, which was given to `fit` as an object."""


@dataclass(frozen=True)
class Config:
    """The settings of a fit. The defaults are the paper's; `PRESETS` has others."""

    lam: float = 20.0
    """Temperature lambda. A smaller value makes the map more sensitive to rewards."""
    delta: float = 0.001
    """Cost of one step in an absorbing terminal state. Only the objectives gdo, log_gdo and
    natural_gdo have absorbing terminal states."""
    objective: str = "drogo"
    """The loss: gdo, log_gdo, natural_gdo, drogo, or q, which has a value for each action and so
    learns from the data of any policy."""
    direct: bool = False
    """Solve the problem that the data describe exactly, and fit the network to the solution. This
    needs states that repeat, and is not the paper's method (objectives drogo and q only)."""
    network: str = "auto"
    """The network: table, mlp, cnn, or auto, which chooses by the shape of the observations."""
    width: int = 128
    """Units in each hidden dense layer of an MLP or CNN."""
    depth: int | None = None
    """Number of hidden dense layers. The paper's unless given: 4 in an MLP, 1 in a CNN."""
    leak: float = 0.0
    """Slope of the units of an MLP where they are off. With 0, the paper's rectified units, large
    steps can leave an observation without a unit that responds to it, and then nothing more is
    learned there."""
    frequencies: int = 0
    """Number of Fourier features of each coordinate, for an MLP on at most 16 numbers."""
    normalise: bool = False
    """Shift and scale vectors of numbers to [-0.5, 0.5] if some are outside [-1, 1] or hardly vary,
    using the range seen in the data. Images for an MLP are normalised pixel by pixel, without the
    pixels that never change. Bytes for a CNN always become n / 255 - 0.5."""
    optimiser: str = "rmsprop"
    """The optimiser: rmsprop or adam, with optax's defaults."""
    step_size: float = 1e-5
    """Step size of the optimiser, before the schedule."""
    schedule: str = "constant"
    """Schedule of the step size: constant, or cosine, which ends at 0."""
    clip_norm: float = 0.5
    """Largest global norm of a gradient. Larger gradients are scaled down to it."""
    updates: int = 40_000
    """Number of updates."""
    batch_size: int = 2000
    """Number of transitions in a batch."""
    terminal_fraction: float = 0.0
    """Fraction of each batch that is drawn from the transitions into terminal states, which are
    rare and anchor everything else. Weights undo the choice, so the expected gradient stays the
    same. It has no effect where every update uses the whole table of states."""
    full_batches: bool = False
    """Use all transitions in every update if the table of states is small enough for that."""
    cap: float | Literal["auto"] = math.inf
    """Largest v(s') - v(s) inside an exponential. The value auto is just above the largest
    difference that the solution can have, computed from the data."""
    ceiling: bool = False
    """Bound v(s') from above by the best terminal value, which the solution never exceeds
    (objective drogo only)."""
    target_rate: float = 1.0
    """Polyak rate of a target network that gives v(s'). The value 1 means no target network."""
    scaled: bool = False
    """Divide the residual of each transition by exp(-r / lam), so that costly states do not
    dominate the gradient, and noisy or action-dependent rewards have a well-defined solution
    (objectives drogo, q and natural_gdo only)."""
    rescale: bool = False
    """Multiply the network's outputs by what rewards and lam suggest for the depth of the map, so
    that every lam is learned in about as many updates (objectives drogo and q only)."""
    weigh_actions: bool = False
    """Weigh each action as the default policy takes it, where states repeat, which removes the
    noise of sampled actions. Otherwise data of the default policy are taken as they are. Data of
    another policy are always weighed."""
    emphasis: float = 0.0
    """Weigh each state by this power of its residual, where every update uses all transitions. The
    solution does not change, but a single wrong state among hundreds is corrected sooner."""
    penalty: float = 1.0
    """Weight b of the norm penalty of gdo, log_gdo and natural_gdo."""
    target_norm: float = 1.0
    """The value c at which the norm penalty holds the mean of the squared entries."""
    tolerance: float = 0.1
    """Largest difference of any value from the exact solution of the data in a converged fit; a
    thousandth of the map's depth if that is more. For objectives without a known solution, and
    where states do not repeat: the largest residual relative to exp(-r / lam), and never more than
    half the residual of the vector that is zero everywhere."""
    stop_early: bool = False
    """Stop before the last update once every residual is far below the tolerance. It has no effect
    where states do not repeat, because the residuals say too little there."""

    def __post_init__(self) -> None:
        for name in ("lam", "delta", "step_size", "clip_norm", "target_norm", "tolerance"):
            self._require(name, self._number(name) > 0, "it must be positive")
        self._require("lam", self.lam < BEYOND_SINGLE, "it must be less than 1e38")
        for name in ("penalty", "emphasis"):
            self._require(name, self._number(name) >= 0, "it must not be negative")
        for name in ("updates", "batch_size"):
            self._set(name, check_whole(name, getattr(self, name), 1))
        for name, least in (("width", 1), ("depth", 1), ("frequencies", 0)):
            if name != "depth" or self.depth is not None:
                self._set(name, check_whole(name, getattr(self, name), least, MOST_UNITS))
        for field in fields(Config):
            if field.type == "bool":
                on_or_off = isinstance(getattr(self, field.name), bool)
                self._require(field.name, on_or_off, "it must be True or False")
        fraction, rate = self._number("terminal_fraction"), self._number("target_rate")
        self._require("terminal_fraction", 0 <= fraction < 1, "it must lie in [0, 1)")
        self._require("target_rate", 0 < rate <= 1, "it must lie in (0, 1]")
        self._require("leak", 0 <= self._number("leak") < 1, "it must lie in [0, 1)")
        if self.cap not in ("auto", math.inf):
            positive = is_a(self.cap, Real) and self.cap > 0
            self._require("cap", positive, "it must be a positive number, inf for none, or 'auto'")
            self._number("cap")
        for name, choices in CHOICES.items():
            if getattr(self, name) != CUSTOM:
                check_choice(name, getattr(self, name), choices)

    def _require(self, name: str, holds: bool, requirement: str) -> None:
        if not holds:
            raise ArgumentError(f"{name} is {getattr(self, name)!r}; {requirement}.")

    def _set(self, name: str, value: float | int) -> None:
        object.__setattr__(self, name, value)  # the class is frozen for everyone else

    def _number(self, name: str) -> float:
        self._set(name, check_number(name, getattr(self, name)))
        return getattr(self, name)

    def as_json(self) -> dict[str, Any]:
        """Returns the settings as plain JSON, which has no infinity: a cap of inf is "none"."""
        return {**vars(self), "cap": "none" if self.cap == math.inf else self.cap}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Config:
        """Returns the settings that `as_json` wrote.

        Args:
            values: All settings by name.
        """
        differ = sorted(set(values) ^ {field.name for field in fields(Config)})
        if differ:
            raise ArgumentError(
                f"these settings are from another version of drogo: {', '.join(differ)} differ."
            )
        return cls(**{**values, "cap": math.inf if values["cap"] == "none" else values["cap"]})


def is_a(value: object, kind: type) -> bool:
    """Returns whether a value is a number of some kind. True and False are none."""
    return isinstance(value, kind) and not isinstance(value, bool)


MOST_COORDINATES = 16
"""Observations of more numbers than this are not coordinates and get no Fourier features."""

FAST = Config(
    frequencies=8,
    normalise=True,
    optimiser="adam",
    step_size=1e-3,
    schedule="cosine",
    updates=5000,
    full_batches=True,
    cap="auto",
    ceiling=True,
    scaled=True,
    rescale=True,
    weigh_actions=True,
    emphasis=0.5,
    stop_early=True,
)
PRESETS: dict[str, Config] = {
    "paper": Config(),
    "fast": FAST,
    "direct": replace(FAST, direct=True, emphasis=0.0, updates=2000),
    "stable": replace(
        FAST,
        updates=15_000,
        batch_size=1000,
        terminal_fraction=0.1,
        full_batches=False,
        target_rate=0.3,
        emphasis=0.0,
    ),
}

ON_IMAGES: dict[str, dict[str, Any]] = {
    "fast": {"updates": 4000, "step_size": 8e-4},
    "direct": {"updates": 4000, "step_size": 8e-4},
    "stable": {"updates": 3000, "step_size": 5e-4, "batch_size": 128},
}
"""What a preset changes for images, where an update costs more and achieves more. Larger steps
occasionally disable a part of a CNN for good."""

ON_A_TABLE = {"step_size": 0.05}
"""What the presets fast and stable change where observations are state numbers. Each value is then
its own parameter and has to move by as much as the map is deep."""

MOST_STATES_OF_FAST = 2 * FAST.batch_size
"""With more states than this, a table is not evaluated as a whole, which `fast` relies on."""
ON_MANY_STATES = {"frequencies": 64, "updates": 5000}
"""What `direct` changes where there are more: the map of a larger world has finer details."""
MOST_BYTES_OF_FAST = 2**28
PASSES, FEWEST_UPDATES = 200, 3000
"""Where states do not repeat, `stable` makes at most so many passes over vectors of numbers, and at
least so many updates. A state is then seen with a single next state, and a network that sees it too
often learns that one by heart."""
SOLVED = ("drogo", "q")
"""The objectives whose solution is known exactly where states repeat."""
MANY_IMAGES = 500
"""From this many images of one scene on, an MLP on the pixels that change is as good as the CNN and
about thirty times faster. To the solution of `direct` it is fitted better from few images too."""
ON_MANY_IMAGES: dict[str, dict[str, Any]] = {
    "fast": {"network": "mlp", "batch_size": 2 * FAST.batch_size},
    "direct": {
        "network": "mlp",
        "batch_size": 2 * FAST.batch_size,
        "updates": 4000,
        "step_size": 2e-4,
    },
    "stable": {"network": "mlp"},
}
"""Larger steps of `direct` occasionally leave some images without a unit that responds to them."""


@runtime_checkable
class Data(Protocol):
    """What of the transitions decides which preset suits them."""

    def __len__(self) -> int: ...

    @property
    def observations(self) -> Any: ...

    @property
    def repeats(self) -> bool: ...

    @property
    def n_actions(self) -> int | None: ...

    @property
    def follows_default(self) -> bool: ...


def configure(
    data: Data, preset: str = "auto", settings: Mapping[str, Any] | None = None
) -> Config:
    """Returns the configuration of a fit: a preset adapted to the data, with some changes.

    Args:
        data: The transitions to learn from.
        preset: A name from `PRESETS`, or "auto" for the one that suits the data: direct where
            states repeat, and stable elsewhere (with the objective q for data of another policy
            than the default one).
        settings: Fields of `Config` that replace the preset's.
    """
    given = dict(settings or {})
    known = [field.name for field in fields(Config)]
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ArgumentTypeError(
            f"unknown setting(s): {', '.join(unknown)}. The settings are {', '.join(known)}."
        )
    check_choice("preset", preset, (*PRESETS, "auto"))
    table = data.observations
    for_images = {} if given.get("network") == "mlp" else ON_IMAGES
    adapted: dict[str, Any] = {}
    if preset == "auto":
        small = data.repeats and table.nbytes <= MOST_BYTES_OF_FAST
        most = MOST_STATES_OF_FAST
        if small and table.ndim == 4 and len(table) > MANY_IMAGES and "network" not in given:
            for_images, most = ON_MANY_IMAGES, 2 * most
        preset = "fast" if small and len(table) <= most else "stable"
        if small and given.get("objective", "drogo") in SOLVED:
            preset = "direct"
        elif not (data.repeats or data.follows_default) and data.n_actions is not None:
            adapted = {"objective": "q"}
    if table.ndim == 4:
        if preset == "direct" and "network" not in given:
            for_images = ON_MANY_IMAGES
        adapted |= for_images.get(preset, {})
    elif table.ndim == 1 and preset != "paper":
        adapted |= ON_A_TABLE
    elif preset == "direct" and len(table) > MOST_STATES_OF_FAST:
        adapted |= ON_MANY_STATES
    elif preset == "stable" and not data.repeats:
        own = PRESETS[preset]
        most = PASSES * len(data) // own.batch_size
        adapted |= {"updates": min(own.updates, max(most, FEWEST_UPDATES))}
    return replace(PRESETS[preset], **{**adapted, **given})
