"""Everything one call of `fit` or `sweep` needs, and the lanes as they change."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from drogo.files import read_array_file, write_array_file
from drogo.learn import batches, metrics, networks, train
from drogo.learn import config as configs
from drogo.learn.config import Config
from drogo.learn.objectives import PENALISED
from drogo.learn.result import (
    LogEigenvector,
    build_networks,
    lanes_from_arrays,
    leaves_as_arrays,
    raw_output,
    versions,
)
from drogo.learn.train import Batch, Hyper, Lane, Problem, Program
from drogo.learn.transitions import Transitions

CHECKPOINT_FORMAT = "drogo checkpoint 1"

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
    """Features of the whole table, if it is evaluated as a whole."""
    hypers: Hyper
    lanes: Lane
    seed_of_lane: np.ndarray
    whole: bool
    """Each distinct observation is evaluated once per update."""
    history: dict[str, list[np.ndarray]] = field(default_factory=dict)

    @classmethod
    def make(
        cls, data: Transitions, config: Config, seeds: list[int], grid: dict, truth: Truth
    ) -> Run:
        for name, vector in truth.items():
            if np.shape(vector) != (len(data.observations),):
                raise ValueError(
                    f"truth {name!r} has shape {np.shape(vector)}; expected one number for each "
                    f"of the {len(data.observations)} distinct observations."
                )
        if config.objective in PENALISED:
            data = data.with_absorbing_ends(config.delta)
        names = list(grid)
        mesh = np.meshgrid(*grid.values(), indexing="ij")
        points = [tuple(map(float, p)) for p in zip(*(m.ravel() for m in mesh), strict=True)]
        points = points if grid else [()]
        settings = [replace(config, **dict(zip(names, p, strict=True))) for p in points]
        network = networks.choose(data.observations) if config.network == "auto" else config.network
        one_of_each, static = build_networks(network, data.observations, config, seeds)
        seed_of_lane = np.tile(np.arange(len(seeds)), len(points))
        params = _take(one_of_each, seed_of_lane)
        program = Program(config, static)
        passes = 3 if config.objective in PENALISED else 2
        batch_size = min(config.batch_size, len(data))
        whole = len(data.observations) <= passes * batch_size
        return cls(
            data=data,
            config=config,
            seeds=seeds,
            points=points,
            configs=settings,
            truth=truth,
            network=network,
            program=program,
            problem=make_problem(data, config, whole),
            table=program.network(_take(params, np.array(0))).of_table(data.observations)
            if whole
            else None,
            hypers=make_hypers(data, settings, len(seeds)),
            lanes=program.init(params),
            seed_of_lane=seed_of_lane,
            whole=whole,
        )

    @property
    def done(self) -> int:
        return int(np.asarray(self.lanes.update).max())

    def continue_from(self, start: LogEigenvector) -> None:
        if start.network != self.network or list(start.seeds) != self.seeds:
            raise ValueError(
                f"start has network {start.network!r} and seeds {list(start.seeds)}; this fit has "
                f"{self.network!r} and {self.seeds}."
            )
        if start.updates >= self.config.updates:
            raise ValueError(
                f"start has {start.updates} updates already; updates is the number in all, and "
                f"must be larger than that ({self.config.updates})."
            )
        self.lanes = start.lanes
        self.history = {name: list(rows) for name, rows in start.history.items()}

    def draw(self, count: int) -> Batch:
        """Batches of the next `count` updates."""
        n = len(self.data)
        if self.whole and self.config.full_batches:
            share = jnp.asarray(self.data.edges.count / n, dtype=jnp.float32)
            return Batch(None, share, None, share)
        epochs = batches.Epochs(n, min(self.config.batch_size, n))
        second = self.config.objective in PENALISED
        where = (self.seeds, self.done, count)
        if self.whole:
            weights = jnp.asarray(batches.draw_weights(epochs, self.data, *where, batches.FIRST))
            extra = weights
            if second:
                extra = jnp.asarray(batches.draw_weights(epochs, self.data, *where, batches.SECOND))
            return Batch(None, weights, None, extra)
        rows = jnp.asarray(batches.draw_indices(epochs, *where, batches.FIRST))
        extra_rows = None
        if second:
            extra_rows = jnp.asarray(batches.draw_indices(epochs, *where, batches.SECOND))
        even = jnp.full(rows.shape, 1 / rows.shape[-1], dtype=jnp.float32)
        return Batch(rows, even, extra_rows, even)

    def log(self, losses: np.ndarray) -> dict[str, np.ndarray]:
        """One more row of every learning curve."""
        v = self.vectors()
        # The anchored objective's equation; for the others it is the eigenvector's up to a shift.
        gap = metrics.violations(v, self.data.edges, self.config.lam)
        row = {
            "loss": losses,
            "violation": np.abs(gap).mean(axis=1),
            "worst": np.abs(gap).max(axis=1),
            "spread": gap.max(axis=1) - gap.min(axis=1),
        }
        anchor = int(self.data.terminal_states[0])
        for name, vector in self.truth.items():
            row[f"cosine_{name}"] = metrics.cosine(v, vector)
            row[f"difference_{name}"] = metrics.largest_difference(v, vector, anchor)
        for name, value in {"update": np.array(self.done), **row}.items():
            self.history.setdefault(name, []).append(value)
        return row

    def vectors(self) -> np.ndarray:
        """log e of every lane over the table, in the gauge of its objective."""
        out = raw_output(self.program, self.lanes.params, self.data.observations)
        if self.config.objective == "drogo":
            out[:, self.data.terminal_states] = self.data.terminal_rewards / self.config.lam
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
        v = self.vectors()
        diverged = self.diverged_at()
        kept = len(self.seeds)
        near = self.data.neighbours
        made = []
        for k, config in enumerate(self.configs):
            part = slice(k * kept, (k + 1) * kept)
            calm = self.history["worst"][-1][part] <= config.tolerance
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
                    observations=self.data.observations,
                    ends=self.data.terminal_states,
                    end_values=self.data.terminal_rewards / config.lam,
                    lanes=_take(self.lanes, np.arange(kept) + k * kept),
                    network=self.network,
                    versions=versions(),
                    data_id=self.data_id,
                    mean_step=np.abs(v[part][:, near[:, 0]] - v[part][:, near[:, 1]]).mean(axis=1),
                )
            )
        return made

    @property
    def data_id(self) -> str:
        digest = hashlib.sha256()
        for name in ("observations", "state", "next_state", "reward", "terminated"):
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
        arrays, identity = read_array_file(path)
        if identity != self.identity:
            other = sorted(k for k in self.identity if identity.get(k) != self.identity[k])
            raise ValueError(
                f"{path} is a checkpoint of another fit: {', '.join(other)} differ. Delete it, or "
                "give another path."
            )
        count = len(self.points) * len(self.seeds)
        self.lanes = lanes_from_arrays(
            self.config, self.network, self.data.observations, count, arrays
        )
        self.history = {
            name.removeprefix("history/"): list(rows)
            for name, rows in arrays.items()
            if name.startswith("history/")
        }
        return list(arrays["losses"]) if "losses" in arrays else []


def _take(tree: Any, lanes: np.ndarray) -> Any:
    return jax.tree.map(lambda leaf: leaf[jnp.asarray(lanes)], tree)


def make_problem(data: Transitions, config: Config, whole: bool) -> Problem:
    """Distinct transitions if each observation is evaluated once, all of them otherwise."""
    rows = data.edges if whole else data
    lam = config.lam
    ceiling = data.terminal_rewards.max() / lam if config.ceiling else np.inf
    return Problem(
        observations=jnp.asarray(data.observations),
        state=jnp.asarray(rows.state),
        next_state=jnp.asarray(rows.next_state),
        cost=jnp.asarray(np.exp(-rows.reward / lam), dtype=jnp.float32),
        boundary=jnp.asarray(rows.terminal_reward / lam, dtype=jnp.float32),
        terminated=jnp.asarray(rows.terminated),
        ceiling=jnp.asarray(ceiling, dtype=jnp.float32),
    )


def make_hypers(data: Transitions, settings: list[Config], seeds: int) -> Hyper:
    edges = data.edges

    def cap(config: Config) -> float:
        if config.cap != "auto":
            return config.cap
        return train.cap_from_data(edges.state, -edges.reward / config.lam, edges.count)

    columns = zip(*((c.step_size, c.penalty, cap(c)) for c in settings), strict=True)
    return Hyper(*(jnp.asarray(np.repeat(column, seeds), dtype=jnp.float32) for column in columns))
