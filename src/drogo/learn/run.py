"""Everything one call of `fit` or `sweep` needs, and the lanes as they change."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from drogo import config as configs
from drogo.config import Config
from drogo.data.table import read_rows
from drogo.data.transitions import Transitions
from drogo.errors import ArgumentError, BadCheckpoint
from drogo.files import read_array_file, write_array_file
from drogo.learn import batches, metrics, networks, train
from drogo.learn.inputs import Inputs
from drogo.learn.objectives import PENALISED
from drogo.learn.plan import IN_A_RESULT, PER_CHUNK, Plan, make_plan
from drogo.learn.problem import make_hypers, make_problem
from drogo.learn.result import (
    LogEigenvector,
    build_networks,
    lanes_from_arrays,
    leaves_as_arrays,
    raw_output,
    versions,
)
from drogo.learn.train import Batch, Hyper, Lane, Problem, Program

CHECKPOINT_FORMAT = "drogo checkpoint 2"
LONGEST_CHUNK = 100
"""Updates between two looks at the clock: for checkpoints, progress and Ctrl-C."""
STANDARD_ERRORS = 3.0
"""What chance may explain of a violation over a group."""
MOST_HASHED = 20_000
"""Observations that go into the name of a data set."""

Truth = Mapping[str, Float[np.ndarray, " distinct"]]


@dataclass
class Run:
    """A fit under way."""

    data: Transitions
    config: Config
    seeds: list[int]
    points: list[tuple[float, ...]]
    """Settings of the grid; one empty tuple for a plain fit."""
    configs: list[Config]
    truth: Truth
    network: str
    program: Program
    problem: Problem
    table: Any
    """Features of the whole table, if they are made beforehand."""
    hypers: Hyper
    lanes: Lane
    seed_of_lane: np.ndarray
    plan: Plan
    inputs: Inputs
    history: dict[str, list[np.ndarray]] = field(default_factory=dict)

    @classmethod
    def make(
        cls,
        data: Transitions,
        config: Config,
        seeds: list[int],
        grid: dict,
        truth: Truth,
        inputs: Inputs | None = None,
    ) -> Run:
        for name, vector in truth.items():
            if np.shape(vector) != (len(data.observations),):
                raise ArgumentError(
                    f"truth {name!r} has shape {np.shape(vector)}; expected one number for each "
                    f"of the {len(data.observations)} distinct observations."
                )
        mixed = data.terminal_states.size - data.pure_terminal_states[0].size
        if mixed:
            warnings.warn(
                f"{mixed} observation(s) are ends, and were also left as ordinary states: they do "
                "not tell an end apart, and get one value for both. Use an observation that does, "
                "if there is one.",
                UserWarning,
                stacklevel=4,
            )
        if config.objective in PENALISED:
            data = data.with_absorbing_terminals(config.delta)
        names = list(grid)
        mesh = np.meshgrid(*grid.values(), indexing="ij")
        points = [tuple(map(float, p)) for p in zip(*(m.ravel() for m in mesh), strict=True)]
        points = points if grid else [()]
        settings = [replace(config, **dict(zip(names, p, strict=True))) for p in points]
        network = networks.choose(data.observations) if config.network == "auto" else config.network
        if inputs is None:
            small = data.observations.nbytes <= IN_A_RESULT
            inputs = Inputs.of(
                data.observations,
                normalise=config.normalise,
                flat=network == "mlp" and small,
            )
        one_of_each, static = build_networks(network, data.observations, config, inputs, seeds)
        seed_of_lane = np.tile(np.arange(len(seeds)), len(points))
        params = _take(one_of_each, seed_of_lane)
        program = train.program(config, static)
        plan = make_plan(data, config)
        return cls(
            data=data,
            config=config,
            seeds=seeds,
            points=points,
            configs=settings,
            truth=truth,
            network=network,
            program=program,
            problem=make_problem(data, config, plan),
            table=program.network(_take(params, np.array(0))).of_table(data.observations)
            if plan.whole or (plan.repeats and data.are_images)
            else None,
            hypers=make_hypers(data, settings, len(seeds)),
            lanes=program.init(params),
            seed_of_lane=seed_of_lane,
            plan=plan,
            inputs=inputs,
        )

    @property
    def done(self) -> int:
        return int(np.asarray(self.lanes.update).max())

    def continue_from(self, start: LogEigenvector) -> None:
        if start.network != self.network or list(start.seeds) != self.seeds:
            raise ArgumentError(
                f"start has network {start.network!r} and seeds {list(start.seeds)}; this fit has "
                f"{self.network!r} and {self.seeds}."
            )
        if start.updates >= self.config.updates:
            raise ArgumentError(
                f"start has {start.updates} updates already; updates is the number in all, and "
                f"must be larger than that ({self.config.updates})."
            )
        shapes = [jax.tree.map(jnp.shape, lanes) for lanes in (start.lanes, self.lanes)]
        if shapes[0] != shapes[1]:
            raise ArgumentError(
                "start was trained with other settings: another network, optimiser, or with and "
                "without a target network (target_rate)."
            )
        self.lanes = start.lanes
        self.history = {name: list(rows) for name, rows in start.history.items()}

    def draw(self, count: int) -> Batch:
        """Batches of the next `count` updates."""
        if self.plan.whole and self.config.full_batches:
            share = jnp.asarray(self.data.edges.count / len(self.data), dtype=jnp.float32)
            return Batch(None, share, None, share)
        second = self.config.objective in PENALISED
        where = (self.seeds, self.done, count)
        if self.plan.whole:
            n = len(self.data)
            epochs = batches.Epochs(n, min(self.config.batch_size, n))
            weights = jnp.asarray(batches.draw_weights(epochs, self.data, *where, batches.FIRST))
            extra = weights
            if second:
                extra = jnp.asarray(batches.draw_weights(epochs, self.data, *where, batches.SECOND))
            return Batch(None, weights, None, extra)
        rows = batches.draw_rows(self.groups, *where, batches.FIRST)
        weights = jnp.asarray(np.broadcast_to(batches.weights_of(self.groups), rows.shape))
        if self.plan.streamed:
            before, after = (
                jnp.asarray(read_rows(self.data.observations, np.asarray(part)[rows]))
                for part in (self.problem.state, self.problem.next_state)
            )
            return Batch(jnp.asarray(rows), weights, None, weights, before, after)
        extra_rows = None
        if second:
            extra_rows = jnp.asarray(batches.draw_rows(self.groups, *where, batches.SECOND))
        return Batch(jnp.asarray(rows), weights, extra_rows, weights)

    @cached_property
    def groups(self) -> list[batches.Group]:
        """What a batch is drawn from, where batches are drawn."""
        over = np.asarray(self.problem.terminated)
        return batches.make_groups(over, self.config.batch_size, self.config.ends)

    @property
    def most_at_once(self) -> int:
        """Updates whose batches fit into memory together."""
        if not self.plan.streamed:
            return LONGEST_CHUNK
        table = self.data.observations
        size = 2 * len(self.seeds) * self.config.batch_size * (table.nbytes // len(table))
        return max(1, min(LONGEST_CHUNK, PER_CHUNK // size))

    def log(self, losses: np.ndarray) -> dict[str, np.ndarray]:
        """One more row of every learning curve."""
        v = self.vectors(self.plan.compared) if self.truth or self.plan.repeats else None
        # The anchored objective's equation; for the others it is the eigenvector's up to a shift.
        if self.plan.repeats:
            edges = self.data.edges
            assert v is not None
            gap = metrics.violations(v, edges, self.config.lam)
            worst = np.abs(gap).max(axis=1)
            climb, often = v[:, edges.next_state] - v[:, edges.state], edges.count
            level = v.mean(axis=1)
        else:
            gap, worst, climb, level = self.held_out()
            often = np.ones(climb.shape[1])
        cap = np.asarray(self.hypers.cap, dtype=np.float64)[:, None]
        row = {
            "loss": losses,
            "violation": np.abs(gap).mean(axis=1),
            "worst": worst,
            "spread": gap.max(axis=1) - gap.min(axis=1),
            "at_cap": (climb >= cap) @ (often / often.sum()),
            "level": level,
        }
        anchor = int(np.searchsorted(self.plan.compared, self.data.terminal_states[0]))
        for name, vector in self.truth.items():
            assert v is not None
            known = np.asarray(vector)[self.plan.compared]
            row[f"cosine_{name}"] = metrics.cosine(v, known)
            row[f"difference_{name}"] = metrics.largest_difference(v, known, anchor)
            row[f"mean_difference_{name}"] = metrics.mean_difference(v, known, anchor)
        for name, value in {"update": np.array(self.done), **row}.items():
            self.history.setdefault(name, []).append(value)
        return row

    def held_out(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Of the transitions that were held out: violations in groups, the worst of them beyond
        what chance explains, v(s') - v(s), and the mean of v."""
        data, rows = self.data, self.plan.checked
        both = self.vectors(np.concatenate([data.state[rows], data.next_state[rows]]))
        here, there = both[:, : rows.size], both[:, rows.size :]
        if self.config.objective == "drogo":
            ends = data.terminal_value[rows] / self.config.lam
            there = np.where(data.terminated[rows], ends, there)
        gap, error = metrics.grouped_violations(here, there, data.reward[rows] / self.config.lam)
        beyond = np.maximum(np.abs(gap) - STANDARD_ERRORS * error, 0.0).max(axis=1)
        # Of all together with less excuse: with few transitions, chance would explain anything.
        together = np.abs(gap.mean(axis=1)) - np.sqrt((error**2).mean(axis=1) / error.shape[1])
        worst = np.maximum(beyond, together)
        return gap, worst, there - here, here.mean(axis=1)

    def vectors(self, which: np.ndarray) -> np.ndarray:
        """log e of every lane at these rows of the table, in the gauge of its objective."""
        table = self.data.observations
        whole = which.size == len(table) and np.array_equal(which, np.arange(which.size))
        shown = table if whole else read_rows(table, which)
        out = raw_output(self.program, self.lanes.params, shown)
        if self.config.objective == "drogo":
            ends, values = self.data.pure_terminal_states
            if ends.size:
                at = np.minimum(np.searchsorted(ends, which), ends.size - 1)
                is_end = ends[at] == which
                out[:, is_end] = values[at[is_end]] / self.config.lam
            return out
        log_e = np.log(np.maximum(np.abs(out), 1e-300)) if self.config.objective == "gdo" else out
        return log_e - np.logaddexp.reduce(2 * log_e, axis=1)[:, None] / 2

    def diverged_at(self) -> np.ndarray:
        """The update at which each lane was lost, or -1.

        A network may run away without a single infinite number; its equation is then violated
        beyond measure, which shows at the next logged update.
        """
        lost = np.asarray(self.lanes.diverged_at).copy()
        runaway = ~np.isfinite(np.stack(self.history["violation"]))
        first = np.stack(self.history["update"])[runaway.argmax(axis=0)]
        return np.where((lost < 0) & runaway[-1], first, lost)

    def results(self) -> list[LogEigenvector]:
        """One for each point of the grid."""
        kept_rows = self.plan.kept
        v = self.vectors(kept_rows)
        diverged = self.diverged_at()
        kept = len(self.seeds)
        near, steps = self.data.neighbours, v
        if kept_rows.size < len(self.data.observations):
            some = self.plan.checked
            some = some[self.data.state[some] != self.data.next_state[some]]
            steps = self.vectors(
                np.concatenate([self.data.state[some], self.data.next_state[some]])
            )
            near = np.arange(2 * some.size).reshape(2, -1).T
        pure, values = self.data.pure_terminal_states
        is_kept = np.isin(pure, kept_rows)
        ends, end_rewards = np.searchsorted(kept_rows, pure[is_kept]), values[is_kept]
        observations = self.data.observations
        if kept_rows.size < len(observations):
            observations = read_rows(observations, kept_rows)
        made = []
        for k, config in enumerate(self.configs):
            part = slice(k * kept, (k + 1) * kept)
            calm = self.history["worst"][-1][part] <= min(config.tolerance, self.tolerable)
            at = [int(d) if d >= 0 else None for d in diverged[part]]
            status = [
                "diverged" if d is not None else "converged" if c else "max_updates"
                for d, c in zip(at, calm, strict=True)
            ]
            made.append(
                LogEigenvector(
                    v=v[part],
                    status=tuple(status),
                    diverged_at=tuple(at),
                    history={
                        name: np.stack([row if row.ndim == 0 else row[part] for row in rows])
                        for name, rows in self.history.items()
                    },
                    config=config,
                    seeds=tuple(self.seeds),
                    observations=observations,
                    ends=ends,
                    end_values=end_rewards / config.lam,
                    lanes=_take(self.lanes, np.arange(kept) + k * kept),
                    network=self.network,
                    versions=versions(),
                    data_id=self.data_id,
                    inputs=self.inputs,
                    mean_step=np.abs(steps[part][:, near[:, 0]] - steps[part][:, near[:, 1]]).mean(
                        axis=1
                    ),
                )
            )
        return made

    @property
    def tolerable(self) -> float:
        """A share of the largest violation of the vector that is zero everywhere: of single states'
        equations, or of averages, in which more is hidden."""
        of_zero = -float(np.expm1(self.data.reward.min() / self.config.lam))
        return of_zero / (2 if self.plan.repeats else 10)

    @cached_property
    def data_id(self) -> str:
        digest = hashlib.sha256()
        table = self.data.observations
        every = max(1, len(table) // MOST_HASHED)
        shown = table if every == 1 else read_rows(table, np.arange(0, len(table), every))
        digest.update(np.ascontiguousarray(shown).tobytes())
        for name in ("state", "next_state", "reward", "terminated", "terminal_value"):
            digest.update(np.ascontiguousarray(getattr(self.data, name)).tobytes())
        return digest.hexdigest()[:16]

    @property
    def identity(self) -> dict[str, Any]:
        """What must agree for a checkpoint to be of this run."""
        return {
            "format": CHECKPOINT_FORMAT,
            "config": configs.as_json(self.config),
            "points": [list(p) for p in self.points],
            "seeds": self.seeds,
            "data_id": self.data_id,
            "truth": sorted(self.truth),
        }

    def save(self, path: Path, losses: list[np.ndarray]) -> None:
        arrays = {f"history/{name}": np.stack(rows) for name, rows in self.history.items()}
        if losses:
            arrays["losses"] = np.stack(losses)
        arrays |= leaves_as_arrays(self.lanes)
        write_array_file(path, arrays, self.identity, overwrite=True)

    def restore(self, path: Path) -> list[np.ndarray]:
        try:
            return self._restore(path)
        except BadCheckpoint:
            raise
        except (ValueError, KeyError, OSError) as error:
            raise BadCheckpoint(
                f"{path} cannot be read ({error}). Delete it, or give another path."
            ) from error

    def _restore(self, path: Path) -> list[np.ndarray]:
        arrays, identity = read_array_file(path)
        if identity != self.identity:
            other = sorted(k for k in self.identity if identity.get(k) != self.identity[k])
            raise BadCheckpoint(
                f"{path} is a checkpoint of another fit: {', '.join(other)} differ. Delete it, or "
                "give another path."
            )
        count = len(self.points) * len(self.seeds)
        self.lanes = lanes_from_arrays(
            self.config, self.network, self.data.observations, self.inputs, count, arrays
        )
        self.history = {
            name.removeprefix("history/"): list(rows)
            for name, rows in arrays.items()
            if name.startswith("history/")
        }
        return list(arrays["losses"]) if "losses" in arrays else []


def _take(tree: Any, lanes: np.ndarray) -> Any:
    return jax.tree.map(lambda leaf: leaf[jnp.asarray(lanes)], tree)
