"""`LogEigenvector`: what a fit returns. It knows how it was made and whether it worked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, Shaped

from drogo.config import Config
from drogo.data.arrays import as_batch, as_type
from drogo.data.table import merge_equal
from drogo.device import to_device
from drogo.errors import ArgumentError
from drogo.learn.checkpoint import (
    Progress,
)
from drogo.learn.judge import Judge, outputs
from drogo.learn.learner import Learner, State
from drogo.learn.policy import Policy
from drogo.learn.prepare import take
from drogo.learn.train import Training, lost_at
from drogo.learn.value import ValueFunction, single_log_e, single_output, terminal_rewards
from drogo.potential import Potential
from drogo.requests import versions

MANY_AT_CAP = 0.02
FALLING = 0.05
"""The share of its depth by which v may fall over the last quarter of training."""


@dataclass(frozen=True, eq=False, repr=False)
class LogEigenvector:
    """The learned vector, one for each seed."""

    v: Float[np.ndarray, "seeds distinct"]
    """log e at every distinct observation of the data. Terminal states have their own value, 0
    unless given. `gdo` learns e itself and may get its sign wrong: its v is log |e|."""
    status: tuple[str, ...]
    """For each seed:

    - "converged": every value is within the tolerance of the exact solution of the data. For an
      objective whose solution is not known exactly, every equation holds within the tolerance.
    - "unverified": no equation is seen to be violated, but the values were not compared with
      anything: states do not repeat, or in the data some states were never left, or never lead to a
      terminal state.
    - "max_updates": neither is the case (also if a callback stopped the fit).
    - "diverged": a number became infinite.
    """
    diverged_at: tuple[int | None, ...]
    """For each seed the update at which it diverged, or None."""
    history: Mapping[str, np.ndarray]
    """`update` (logged,) and arrays (logged, seeds): the mean `loss` since the last row, NaN where
    a seed made no update; of the residuals of all states the mean `violation`, the `worst`, and the
    `spread` between largest and smallest; `at_cap`, the share of transitions with v(s') - v(s) at
    the cap; `level`, the mean of v; and `cosine_NAME`, `difference_NAME` and `mean_difference_NAME`
    for each truth that was given."""
    config: Config
    seeds: tuple[int, ...]
    observations: Shaped[np.ndarray, "distinct ..."]
    terminal_states: Int[np.ndarray, " known"]
    """The rows of `observations` that are terminal states with a known value."""
    terminal_rewards: Float[np.ndarray, " known"]
    """The rewards of these terminal states themselves; v is `terminal_rewards / lam` there."""
    log_scale: Float[np.ndarray, " seeds"]
    """What was subtracted from the network's log e to fix the scale of v."""
    mean_step: Float[np.ndarray, " seeds"]
    """The mean absolute difference of v between neighbours in the data, by which a potential is
    normalised."""
    learner: Learner = field(repr=False)
    state: State = field(repr=False)
    """The state of training of all seeds, from which it can continue."""
    n_actions: int | None
    """The number of actions, if they are discrete and known."""
    notes: tuple[str, ...]
    """Sentences about the data: what was taken for granted, and what they do not tell."""
    data_digest: str
    """Identifies the transitions that it was trained on."""
    own: Mapping[str, str]
    """The names of the objects that the user gave: network, optimiser, objective, schedule, and
    default_policy."""
    versions: Mapping[str, str]

    def __repr__(self) -> str:
        counts = ", ".join(f"{self.status.count(s)} {s}" for s in sorted(set(self.status)))
        return (
            f"LogEigenvector({len(self.seeds)} seed(s), {self.v.shape[1]} observations, "
            f"{self.config.objective}, lam {self.config.lam:g}, {self.updates} updates, status: "
            f"{counts})"
        )

    @property
    def updates(self) -> int:
        """The number of updates made."""
        return int(np.asarray(self.state.update).max())

    @property
    def network(self) -> str:
        """The name of the network."""
        return self.own.get("network", self.config.network)

    def __call__(self, observations: Any) -> Float[np.ndarray, "seeds batch"]:
        """Returns log e at any observations, also unseen ones.

        Args:
            observations: A batch of observations.
        """
        batch = as_batch("this fit", observations, self.observations)
        v = self._by_network(batch, slice(None))
        known = self.observations[self.terminal_states]
        table, index = merge_equal(np.concatenate([known, batch]))
        value = np.full(len(table), np.nan)
        value[index[: len(known)]] = self.terminal_rewards / self.config.lam
        given = value[index[len(known) :]]
        return np.where(np.isnan(given), v, given)

    def _by_network(self, batch: np.ndarray, lanes: slice) -> Float[np.ndarray, "lanes batch"]:
        params = take(self.state.params, lanes)
        raw = outputs(self.learner, params, batch)
        log_e = self.learner.objective.log_e(to_device(raw, jnp.float32))
        return np.asarray(log_e, dtype=np.float64) - self.log_scale[lanes, None]

    def values_of(self, lane: int) -> Callable[[np.ndarray], Float[np.ndarray, " batch"]]:
        """Returns log e of one lane by its network alone, as a function of a batch.

        Args:
            lane: The place of a seed in `seeds`.
        """

        def values(batch: np.ndarray) -> Float[np.ndarray, " batch"]:
            batch = as_type("this fit", batch, self.observations.dtype)
            # Powers of 4: each size is compiled.
            most = 1 << 2 * (((len(batch) - 1).bit_length() + 1) // 2)
            filled = np.resize(batch, (most, *batch.shape[1:]))
            return self._by_network(filled, slice(lane, lane + 1))[0, : len(batch)]

        return values

    def value_fn(self, seed: int = 0) -> ValueFunction:
        """Returns log e of one seed as a pure JAX function of a batch of observations.

        It can be called inside `jax.jit`, `vmap` and `lax.scan`. Known terminal states get their
        values, as in `result(observations)`.

        Args:
            seed: One of the seeds of this fit.
        """
        k = self._lane(seed)
        distinct = len(self.observations)
        if self.observations.dtype.itemsize == 8:  # JAX may halve it
            on_device = np.asarray(to_device(self.observations))
            distinct = len(merge_equal(on_device)[0])
            if on_device.dtype.kind in "iu" and (on_device != self.observations).any():
                distinct = 0  # large numbers wrap around
        if distinct < len(self.observations):
            raise ArgumentError(
                f"JAX without double precision tells only {distinct} of the "
                f"{len(self.observations)} observations apart. Use "
                'jax.config.update("jax_enable_x64", True).'
            )
        params = take(self.state.params, k)
        return ValueFunction(
            self.learner.network(params),
            self.learner.objective,
            self.learner.inputs,
            to_device(self.log_scale[k], dtype=jnp.float32),
            terminal_rewards(
                self.observations[self.terminal_states], self.terminal_rewards / self.config.lam
            ),
        )

    def diagnosis(self) -> list[str]:
        """Returns, for each seed that has not converged, what is wrong and what may help."""
        lines = []
        for k, seed in enumerate(self.seeds):
            own = {name: rows[:, k] for name, rows in self.history.items() if name != "update"}
            text = diagnose(own, self.status[k])
            lines += [f"seed {seed}: {text}"] if text else []
        return lines

    def potential(self, seed: int = 0, *, normalised: bool = True) -> Potential:
        """Returns the vector of one seed as a potential for `PotentialShaping`.

        Observations of the data are looked up; others go through the network.

        Args:
            seed: One of the seeds of this fit.
            normalised: Whether to divide by the mean difference between neighbours in the data.
        """
        k = self._lane(seed)
        if self.status[k] == "diverged":
            raise ArgumentError(
                f"seed {seed} diverged at update {self.diverged_at[k]} and cannot be used as a "
                "potential. Use another seed, or train again."
            )
        scale = float(self.mean_step[k]) if normalised else 1.0
        if not scale > 0:
            raise ArgumentError(f"seed {seed} learned a constant; it cannot be normalised.")
        network = self.learner.network(take(self.state.params, k))
        output = single_output(network, self.learner.inputs)
        objective, log_scale = self.learner.objective, float(self.log_scale[k])
        log_e = single_log_e(objective)

        def unseen(batch: np.ndarray) -> np.ndarray:
            return self._by_network(batch, slice(k, k + 1))[0] / scale

        def unseen_single(observation: np.ndarray) -> float:
            return (log_e(output(observation)) - log_scale) / scale

        name = f"the potential of a fit (seed {seed})"
        network_alone = Potential(unseen, name=name, single=unseen_single)
        return Potential.from_states(
            self.observations, self.v[k] / scale, name=name, otherwise=network_alone
        )

    def policy(self, seed: int = 0) -> Policy:
        """Returns the policy that one seed of a fit with objective="q" has learned.

        Args:
            seed: One of the seeds of this fit.
        """
        k = self._lane(seed)
        objective = self.learner.objective
        if not objective.per_action:
            raise ArgumentError(
                f"a fit with the objective {self.config.objective!r} has no values of actions, "
                "from which a policy follows. Use objective='q'."
            )

        def logits(batch: np.ndarray) -> np.ndarray:
            as_trained = as_type("this policy", batch, self.observations.dtype)
            raw = outputs(self.learner, take(self.state.params, slice(k, k + 1)), as_trained)
            return float(objective.numbers.scale) * raw[0]

        return Policy(logits, self.observations.shape[1:])

    def _lane(self, seed: int) -> int:
        if seed not in self.seeds:
            raise ArgumentError(f"seed {seed} is none of this fit's seeds: {list(self.seeds)}.")
        return self.seeds.index(seed)

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Writes the fit to one `.npz` file, without objects.

        Of a network, optimiser or objective of the user's own the arrays are saved; `load` is given
        the object again.

        Args:
            path: The file.
            overwrite: Whether to replace a file that is there.
        """
        from drogo.learn.files import write_fit  # which imports this file

        write_fit(self, Path(path), overwrite=overwrite)


def make_results(
    training: Training, progress: Progress, notes: Sequence[str]
) -> list[LogEigenvector]:
    """Returns the results of a training, one for each point of its grid.

    Args:
        training: What was trained.
        progress: How far it came.
        notes: What the data say of themselves.
    """
    judge, size = training.judge, len(training.seeds)
    assert isinstance(judge, Judge)
    data, learner, kept = judge.data, judge.learner, judge.plan.kept
    raw = judge.outputs(progress.states.params, kept)
    v, log_scale = judge.log_e(raw, kept), judge.log_e_and_scale(raw)[1]
    lost = lost_at(progress)
    status = np.where(lost >= 0, "diverged", judge.status(progress.last_row)).tolist()
    diverged_at = [None if update < 0 else update for update in lost.tolist()]
    mean_step = _mean_step(judge, progress.states.params, v)
    states, values = data.pure_terminal_states
    is_kept = np.isin(states, kept) & learner.objective.anchored
    whole = kept.size == len(data.observations)
    observations = data.observations if whole else np.asarray(data.observations[kept])
    results = []
    for begin in range(0, len(judge.configs), size):
        lanes = slice(begin, begin + size)
        results.append(
            LogEigenvector(
                v=v[lanes],
                status=tuple(status[lanes]),
                diverged_at=tuple(diverged_at[lanes]),
                history={
                    name: np.stack([row if row.ndim == 0 else row[lanes] for row in rows])
                    for name, rows in progress.history.items()
                },
                config=judge.configs[begin],
                seeds=tuple(training.seeds),
                observations=observations,
                terminal_states=np.searchsorted(kept, states[is_kept]),
                terminal_rewards=values[is_kept],
                log_scale=log_scale[lanes],
                mean_step=mean_step[lanes],
                learner=learner.with_numbers(take(judge.numbers, begin)),
                state=take(progress.states, lanes),
                n_actions=judge.data.n_actions,
                notes=tuple(notes),
                data_digest=training.identity["data"],
                own=training.identity["own"],
                versions=versions(),
            )
        )
    return results


def _mean_step(judge: Judge, params: Any, v: np.ndarray) -> np.ndarray:
    data = judge.data
    pairs = data.neighbours
    if judge.plan.kept.size < len(data.observations):  # of the transitions that were checked
        some = judge.plan.checked
        some = some[data.state[some] != data.next_state[some]]
        both = np.concatenate([data.state[some], data.next_state[some]])
        v = judge.log_e(judge.outputs(params, both), both)
        pairs = np.arange(2 * some.size).reshape(2, -1).T
    return np.abs(v[:, pairs[:, 0]] - v[:, pairs[:, 1]]).mean(axis=1)


def diagnose(history: Mapping[str, np.ndarray], status: str) -> str:
    """Returns what is wrong and what may help, or nothing if all is well.

    Args:
        history: The history of one seed.
        status: Its status.
    """
    if status == "converged":
        return ""
    if status == "diverged":
        return "diverged. Try preset='stable' (a target network and a cap), or a smaller step_size."
    if status == "unverified":
        return (
            "no equation is seen to be violated, but the values were not compared with anything: "
            "states do not repeat, or some were never left or never lead to a terminal state."
        )
    name, key = ("error", "error") if "error" in history else ("residual", "worst")
    parts = [f"the largest {name} is {history[key][-1]:.2g}, above the tolerance"]
    level = history["level"]
    fell = level[3 * (len(level) - 1) // 4] - level[-1]
    if fell > FALLING * abs(level[-1]):
        parts.append(
            f"v still falls (by {fell:.2g} over the last quarter). Use more updates; if it never "
            "stops falling, collect more transitions into terminal states, which anchor it"
        )
    if history["at_cap"][-1] > MANY_AT_CAP:
        parts.append(
            f"{history['at_cap'][-1]:.0%} of the transitions are at the cap, so some values are "
            "higher than anything supports. Use more updates, Fourier features (frequencies) or a "
            "target network (target_rate)"
        )
    if len(parts) == 1:
        parts.append("more updates may help, or more data where states were seen seldom")
    return "; ".join(parts) + "."
