"""`fit_continuing`: the map of a task that never ends, and what a step is worth in it.

A state takes the place of the terminal one: the map is 0 there. With all rewards lowered by what a
step is worth, the way from this reference state back to it is worth nothing on balance. There are
two ways to learn it:

- Where states repeat, what a step is worth follows from the data: it is the largest eigenvalue of
  the problem that they describe. The map is then learned like any other, with the reference state
  as the terminal one.
- Elsewhere the map and what a step is worth are learned together (`drogo.learn.differential`).
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from drogo.config import CUSTOM, Config, configure
from drogo.data import DefaultPolicy, Transitions, under
from drogo.data.arrays import as_batch
from drogo.data.table import merge_equal
from drogo.errors import (
    ArgumentError,
    DamagedFile,
    DataError,
    DrogoError,
    NotConverged,
    check_choice,
    check_positive,
)
from drogo.files import Header, read_array_file, write_array_file
from drogo.learn.arguments import Seeds, own_parts, report_divergence, seed_list
from drogo.learn.build import UserNetwork, choose
from drogo.learn.checkpoint import Progress, as_section, section
from drogo.learn.differential import (
    AbstractDifferential,
    Differential,
    DifferentialActionValues,
    learned_eigenvalue,
    prepare_jointly,
)
from drogo.learn.files import check_parts, from_parts, parts_of
from drogo.learn.fit import fit
from drogo.learn.growth import growth_around
from drogo.learn.identity import describe
from drogo.learn.judge import TOLERATED_SHARE
from drogo.learn.policy import Policy
from drogo.learn.result import LogEigenvector, make_results
from drogo.learn.spectrum.problem import evenly
from drogo.learn.train import Callback, train
from drogo.potential import Potential

FORMAT, OWN = "drogo continuing 1", "continuing/"
ARRAYS = ("v", "log_eigenvalue", "reference")
EXPECTED = ("observation(s) are terminal states in some", "rewards are not negative. The vector is")
"""Warnings that are no news here: the reference state is left again, and rewards are lowered."""
UNUSED = {"terminal_fraction": 0.0, "ceiling": False, "direct": False}
"""Settings of the presets that need terminal states, as they are switched off."""
ALWAYS = ("scaled", "weigh_actions")
"""Settings that are always on: what a step is worth belongs to equations that are divided by
exp(-r / lam), of actions as the default policy takes them."""
NOT_TAKEN = ("vectors", "truth", "continue_from")
"""Arguments of `fit` that there are none of here."""
PRESETS = ("auto", "direct", "fast", "stable")
TARGET_RATE = 0.3
"""Without a target network, and with no terminal state to bound it, v runs away."""


@dataclass(frozen=True, eq=False, repr=False)
class ContinuingMap:
    """A map of a task that never ends, for each seed, and what a step is worth."""

    v: Float[np.ndarray, "seeds distinct"]
    """log e at every distinct observation of the data, 0 at the reference."""
    log_eigenvalue: Float[np.ndarray, " seeds"]
    """The log of the largest eigenvalue of `diag(exp(r/lam)) P`: by the data, or as it was
    learned."""
    reference: Shaped[np.ndarray, ...]
    """The observation at which the map is 0."""
    fit: LogEigenvector
    """The fit to rewards that are lowered by the gain. Its v may differ by a constant."""

    def __repr__(self) -> str:
        gain = ", ".join(f"{number:.6g}" for number in self.gain)
        return f"ContinuingMap(gain {gain}, {self.fit!r})"

    @property
    def lam(self) -> float:
        """The temperature lambda."""
        return self.fit.config.lam

    @property
    def gain(self) -> Float[np.ndarray, " seeds"]:
        """`lam log(eigenvalue)`: what a step is worth on average, as in `exact.Perron`."""
        return self.lam * self.log_eigenvalue

    @property
    def status(self) -> tuple[str, ...]:
        """The status of each seed, as of any fit. Where the eigenvalue was learned as well and is
        known, a fit has converged if it is within the tolerance, too."""
        return self.fit.status

    @property
    def history(self) -> Mapping[str, np.ndarray]:
        """The history of the fit; `log_eigenvalue` is in it if it was learned."""
        return self.fit.history

    @property
    def observations(self) -> np.ndarray:
        """The distinct observations of the data."""
        return self.fit.observations

    def __call__(self, observations: Any) -> Float[np.ndarray, "seeds batch"]:
        """Returns log e at any observations, also unseen ones; 0 at the reference.

        Args:
            observations: A batch of observations.
        """
        batch = as_batch("this fit", observations, self.observations)
        return self.fit(batch) - self.fit(self.reference[None])

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Writes the map to one `.npz` file, as `LogEigenvector.save` does.

        Args:
            path: The file.
            overwrite: Whether to replace a file that is there.
        """
        arrays, settings = parts_of(self.fit)
        arrays |= as_section(OWN, {name: getattr(self, name) for name in ARRAYS})
        write_array_file(Path(path), arrays, {"format": FORMAT, **settings}, overwrite=overwrite)

    def policy(self, seed: int = 0) -> Policy:
        """Returns the policy that one seed has learned, if the data have discrete actions.

        Args:
            seed: One of the seeds.
        """
        return self.fit.policy(seed)

    def potential(self, seed: int = 0, *, normalised: bool = True) -> Potential:
        """Returns the map of one seed as a potential, as `LogEigenvector.potential` does.

        Args:
            seed: One of the seeds.
            normalised: Whether to divide by the mean difference between neighbours in the data.
        """
        return self.fit.potential(seed, normalised=normalised)


def fit_continuing(
    data: Transitions,
    *,
    lam: float = 20.0,
    reference: Any = None,
    preset: str = "auto",
    seeds: Seeds = 1,
    default_policy: DefaultPolicy | None = None,
    checkpoint: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
    **settings: Any,
) -> ContinuingMap:
    """Learns the map of a task that never ends, and what a step is worth in it.

    Args:
        data: The transitions. None of them is terminated, and their rewards may have any sign and
            may depend on the action and on the next state.
        lam: The temperature lambda.
        reference: The observation at which the map is 0; by default that of the first transition.
            Where states repeat, all that was left must lead to it, and it to itself; and where a
            part of the observations is left for good, no step in there may be worth more.
        preset: "direct" to compute what a step is worth from the data, where states repeat; "fast"
            or "stable" to learn it together with the map; or "auto": direct where states repeat,
            stable elsewhere.
        seeds: As in `fit`.
        default_policy: As in `fit`.
        checkpoint: As in `fit`.
        callbacks: As in `fit`.
        **settings: As in `fit`. The objective is "q" if the data have discrete actions, so that a
            policy follows, and otherwise "drogo".

    Returns:
        The map of each seed, and what a step is worth.

    Raises:
        DataError: It cannot be learned from these data.
        NotConverged: What a step is worth, or the map, could not be computed, with preset "direct".
        Diverged: All seeds diverged.
    """
    lam = check_positive("lam", lam)
    if data.terminated.any():
        raise DataError(
            f"{int(data.terminated.sum())} of the {len(data)} transitions are terminated, so this "
            "task ends.",
            remedy="Use fit, in which terminal states hold the map in place, or collect from "
            "drogo.NeverEnding(env), whose episodes lead on to the next one.",
        )
    _check_settings(preset, settings)
    place = _reference(data, reference)
    settings = {"lam": lam, "objective": "drogo" if data.n_actions is None else "q", **settings}
    if settings["objective"] not in JOINTLY:
        raise ArgumentError(
            f"objective is {settings['objective']!r}; for a task that never ends it is 'drogo', or "
            "'q' for data with discrete actions."
        )
    common = {"seeds": seeds, "checkpoint": checkpoint, "callbacks": callbacks}
    if preset == "direct" or (preset == "auto" and data.repeats):
        return _directly(data, place, {"preset": preset, **common, **settings}, default_policy)
    return _jointly(data, place, preset, settings, default_policy, **common)


JOINTLY: dict[str, type[AbstractDifferential]] = {
    "drogo": Differential,
    "q": DifferentialActionValues,
}


def _check_settings(preset: str, settings: Mapping[str, Any]) -> None:
    """Raises an error if a setting has no meaning for a task that never ends."""
    check_choice("preset", preset, PRESETS)
    given = [name for name in NOT_TAKEN if settings.get(name) is not None]
    if given:
        raise ArgumentError(f"fit_continuing takes no {given[0]}=.")
    off = [name for name in ALWAYS if settings.get(name, True) is not True]
    if off:
        raise ArgumentError(
            f"{off[0]} is {settings[off[0]]!r}; for a task that never ends it is True, as what a "
            "step is worth would belong to another problem than the map."
        )


def _directly(
    data: Transitions,
    reference: np.ndarray,
    settings: dict[str, Any],
    default_policy: DefaultPolicy | None,
) -> ContinuingMap:
    """Computes what a step is worth, and learns the map of what is left."""
    if not data.repeats:
        raise DataError(
            "what a step is worth is computed from states that repeat, and in these "
            f"{len(data)} transitions there are {len(data.observations)} different observations.",
            remedy="Use preset='stable', which learns it.",
        )
    lam = settings["lam"]
    row = _row_of(data, reference)
    weighed, _ = under(data, default_policy)
    log_eigenvalue = growth_around(weighed, lam, row)[0].log_eigenvalue
    lowered = replace(
        data,
        reward=data.reward - lam * log_eigenvalue,
        terminated=data.next_state == row,
        terminal_reward=np.zeros(len(data)),
    )
    with warnings.catch_warnings():
        for expected in EXPECTED:
            warnings.filterwarnings("ignore", f".*{expected.replace('(s)', '.s.')}", UserWarning)
        try:
            found = fit(lowered, default_policy=default_policy, **settings)
        except NotConverged as error:
            raise NotConverged(
                f"the map at lam = {lam:g} could not be computed: {error}",
                remedy="Use a larger lam.",
            ) from error
    at_reference = found.v[:, [row]]
    # The way from the reference back to it is worth nothing if the gain and the map agree.
    allowed = np.maximum(found.config.tolerance, TOLERATED_SHARE * np.ptp(found.v, axis=1))
    disagree = np.abs(at_reference[:, 0]) > allowed
    status = [
        "max_updates" if wrong and one == "converged" else one
        for one, wrong in zip(found.status, disagree, strict=True)
    ]
    found = replace(found, status=tuple(status))
    v = found.v - at_reference
    return ContinuingMap(v, np.full(len(v), log_eigenvalue), reference, found)


def _jointly(
    data: Transitions,
    reference: np.ndarray,
    preset: str,
    settings: dict[str, Any],
    default_policy: DefaultPolicy | None,
    seeds: Seeds,
    checkpoint: str | Path | None,
    callbacks: Sequence[Callback],
) -> ContinuingMap:
    """Learns the map, and what a step is worth."""
    objective = JOINTLY[settings["objective"]]
    settings = {"target_rate": TARGET_RATE, **settings, "objective": objective}
    own, named = own_parts(settings)
    config = configure(data, preset, named)
    if objective.per_action and data.n_actions is None:
        raise ArgumentError(
            "objective 'q' has a value for each action, and these transitions have no discrete "
            "actions. Use objective='drogo'."
        )
    data, notes = under(
        data, default_policy, by_action=objective.per_action, always=config.weigh_actions
    )
    own |= {} if default_policy is None else {"default_policy": default_policy}
    data = evenly(data) if data.repeats else data  # states that are seldom seen count as well
    mean = float(np.average(data.reward, weights=data.weight))
    shifted, level = replace(data, reward=data.reward - mean), mean / config.lam
    known = None
    if data.repeats:
        row = _row_of(data, reference)
        with contextlib.suppress(NotConverged):  # it is learned all the same, and not verified
            found, part = growth_around(data, config.lam, row)
            known = (found.log_e, found.log_eigenvalue) if part.all() else None
    training, states = prepare_jointly(
        shifted, _without_ends(config, data), seed_list(seeds), own, known, level
    )
    progress = train(training, Progress(states), checkpoint, callbacks)
    (result,) = make_results(training, progress, notes)
    report_divergence(result.seeds, result.diverged_at, "Try a smaller step_size, or a larger lam.")
    log_eigenvalue = learned_eigenvalue(result.learner, result.state.params) + level
    return ContinuingMap(
        result.v - result(reference[None]), log_eigenvalue, np.asarray(reference), result
    )


def _without_ends(config: Config, data: Transitions) -> Config:
    network = choose(data.observations) if config.network == "auto" else config.network
    return replace(config, **UNUSED, network=network, objective=CUSTOM)


def _reference(data: Transitions, reference: Any) -> np.ndarray:
    """Returns the reference as one observation like those of the data."""
    table = data.observations
    if reference is None:
        return np.asarray(table[data.state[0]])
    given = np.asarray(reference)
    if given.shape != table.shape[1:] or given.dtype.kind not in "biuf":
        raise ArgumentError(
            f"reference is {reference!r}; expected one observation of shape {table.shape[1:]}."
        )
    found = as_batch("this fit", given[None], table)[0]
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        raise ArgumentError(f"reference is {reference!r}, which is not finite.")
    return np.asarray(found)


def _row_of(data: Transitions, reference: np.ndarray) -> int:
    """Returns the row of an observation in the table."""
    table = np.asarray(data.observations)
    _, index = merge_equal(np.concatenate([table, reference[None]]))
    rows = np.flatnonzero(index[:-1] == index[-1])
    if not rows.size:
        raise ArgumentError(
            f"reference is {reference.tolist()}, which is none of the {len(table)} observations of "
            "the data."
        )
    return int(rows[0])


def load_continuing(
    path: str | Path, *, network: UserNetwork | None = None, optimiser: Any = None
) -> ContinuingMap:
    """Returns a saved map of a task that never ends.

    Args:
        path: The file.
        network: The network that was given to `fit_continuing`, if it was the user's own.
        optimiser: The optax transformation that was given to it, if it was.
    """
    path = Path(path)
    arrays, settings = read_array_file(path, FORMAT, _check_file)
    own = section(arrays, OWN)
    if not all(np.isfinite(own[name]).all() for name in ("v", "log_eigenvalue")):
        raise DamagedFile(f"{path} cannot be loaded: its map is not a number everywhere.")
    named = {describe(objective): objective for objective in JOINTLY.values()}
    objective = named.get(settings["own"].get("objective"))
    try:
        fitted = from_parts(arrays, settings, network, optimiser, objective)
    except DrogoError as error:
        raise type(error)(f"{path} cannot be loaded: {error}") from error
    return ContinuingMap(**own, fit=fitted)


def _check_file(settings: dict[str, Any], headers: dict[str, Header]) -> None:
    """Raises an error unless the settings and the shapes of the arrays are those of such a map."""
    check_parts(settings, headers)
    own, shape = section(headers, OWN), headers["v"].shape
    expected = {"v": shape, "log_eigenvalue": shape[:1]}
    expected["reference"] = headers["observations"].shape[1:]
    wrong = [name for name in ARRAYS if own[name].shape != expected[name]]
    if wrong:
        raise ValueError(f"the shape of {', '.join(wrong)} is wrong")
