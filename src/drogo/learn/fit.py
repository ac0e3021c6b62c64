"""`fit`: from transitions to the logarithm of the principal eigenvector."""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
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

CHUNK = 100
"""Updates between two looks at the clock: for checkpoints, progress and Ctrl-C."""
LOGGED = 40
"""Points of a learning curve."""
SECONDS_BETWEEN_CHECKPOINTS = 10.0
SWEPT = ("step_size", "penalty", "cap")
CHECKPOINT_FORMAT = "drogo checkpoint 1"

Truth = Mapping[str, Float[np.ndarray, " distinct"]]
Progress = Callable[[int, Mapping[str, np.ndarray]], None]
"""Called with the number of updates done and the latest row of the history."""


class Diverged(ArithmeticError):
    """Every seed of a fit ran into infinities."""


def fit(
    data: Transitions,
    *,
    preset: str = "fast",
    seeds: int | Sequence[int] = 1,
    truth: Truth | None = None,
    start: LogEigenvector | None = None,
    checkpoint: str | Path | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> LogEigenvector:
    """Learn log e from transitions alone.

    `settings` are fields of `drogo.learn.Config`, on top of a preset: `paper` (exactly the
    paper's) or `fast`. `seeds` is how many (0, 1, ...) or which. `truth` names vectors over
    `data.observations` to compare with along the way. `start` continues a fit for
    `updates` in all. `checkpoint` is a file written now and then; if it is there and of this very
    fit, training goes on from it to the very same result.

    Some seeds diverging is a warning and a status; all of them is `Diverged`.
    """
    config = configs.make(preset, settings, images=data.are_images)
    run = _Run.make(data, config, _seed_list(seeds), {}, truth or {})
    if start is not None:
        run.continue_from(start)
    (result,) = _train(run, checkpoint, progress)
    _report_divergence(result)
    return result


def sweep(
    data: Transitions,
    *,
    preset: str = "fast",
    seeds: int | Sequence[int] = 1,
    truth: Truth | None = None,
    checkpoint: str | Path | None = None,
    progress: Progress | None = None,
    grid: Mapping[str, Sequence[float]],
    **settings: Any,
) -> dict[tuple[float, ...], LogEigenvector]:
    """A grid over `step_size`, `penalty` and `cap`, all of it and all seeds in one program.

    Keys of the answer are the values in the order of `grid`'s names. Diverged seeds are told by
    their status only: finding out which settings diverge is what a sweep is for.
    """
    unknown = set(grid) - set(SWEPT)
    if unknown or not grid:
        raise ValueError(f"a sweep varies {', '.join(SWEPT)}, not {sorted(unknown) or 'nothing'}.")
    config = configs.make(preset, settings, images=data.are_images)
    run = _Run.make(data, config, _seed_list(seeds), dict(grid), truth or {})
    return dict(zip(run.points, _train(run, checkpoint, progress), strict=True))


def _seed_list(seeds: int | Sequence[int]) -> list[int]:
    chosen = list(range(seeds)) if isinstance(seeds, int) else [int(s) for s in seeds]
    if not chosen or len(set(chosen)) < len(chosen) or min(chosen) < 0:
        raise ValueError(f"seeds is {seeds!r}; give how many, or distinct numbers from 0 on.")
    return chosen


@dataclass
class _Run:
    """Everything one call of `fit` or `sweep` needs, and the lanes as they change."""

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
    whole: bool
    """Each distinct observation is evaluated once per update."""
    history: dict[str, list[np.ndarray]] = field(default_factory=dict)

    @classmethod
    def make(
        cls, data: Transitions, config: Config, seeds: list[int], grid: dict, truth: Truth
    ) -> _Run:
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
        repeat = np.tile(np.arange(len(seeds)), len(points))
        params = _take(one_of_each, repeat)
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
            problem=_problem(data, config, whole),
            table=program.network(_take(params, np.array(0))).of_table(data.observations)
            if whole
            else None,
            hypers=_hypers(data, settings, len(seeds)),
            lanes=program.init(params),
            whole=whole,
        )

    @property
    def seed_of_lane(self) -> np.ndarray:
        return np.tile(np.arange(len(self.seeds)), len(self.points))

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


def _train(
    run: _Run, checkpoint: str | Path | None, progress: Progress | None
) -> list[LogEigenvector]:
    path = None if checkpoint is None else Path(checkpoint)
    losses = run.restore(path) if path is not None and path.exists() else []
    every = max(1, run.config.updates // LOGGED)
    if not run.history:
        run.log(np.full(len(run.points) * len(run.seeds), np.nan))
    saved = time.monotonic()
    try:
        while run.done < run.config.updates:
            # Chunks end at logged updates, so that a resumed run cuts where a whole one does.
            count = min(CHUNK, every - run.done % every, run.config.updates - run.done)
            run.lanes, loss = run.program.run(
                run.lanes,
                run.hypers,
                jnp.asarray(run.seed_of_lane),
                run.problem,
                run.table,
                run.draw(count),
                jnp.arange(count),
            )
            losses.append(np.asarray(loss))
            row: dict[str, np.ndarray] = {}
            if run.done % every == 0 or run.done == run.config.updates:
                row, losses = run.log(np.mean(losses, axis=0)), []
            if progress is not None:
                progress(run.done, row)
            if path is not None and time.monotonic() - saved > SECONDS_BETWEEN_CHECKPOINTS:
                run.save(path, losses)
                saved = time.monotonic()
    except KeyboardInterrupt:
        if path is not None:
            run.save(path, losses)
        raise
    if path is not None:
        run.save(path, losses)
    return run.results()


def _report_divergence(result: LogEigenvector) -> None:
    lost = [
        s for s, status in zip(result.seeds, result.status, strict=True) if status == "diverged"
    ]
    if not lost:
        return
    advice = (
        "The ratio exp(v(s') - v(s)) overflowed: try cap='auto', a smaller step_size, or a target "
        "network (target_rate=0.05)."
    )
    if len(lost) == len(result.seeds):
        first = min(at for at in result.diverged_at if at is not None)
        raise Diverged(f"all {len(lost)} seed(s) diverged, the first at update {first}. {advice}")
    warnings.warn(
        f"{len(lost)} of {len(result.seeds)} seeds diverged ({lost}); their rows of v are the last "
        f"finite ones, and not the answer. {advice}",
        RuntimeWarning,
        stacklevel=3,
    )


def _take(tree: Any, lanes: np.ndarray) -> Any:
    return jax.tree.map(lambda leaf: leaf[jnp.asarray(lanes)], tree)


def _problem(data: Transitions, config: Config, whole: bool) -> Problem:
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


def _hypers(data: Transitions, settings: list[Config], seeds: int) -> Hyper:
    edges = data.edges

    def cap(config: Config) -> float:
        if config.cap != "auto":
            return config.cap
        return train.cap_from_data(edges.state, -edges.reward / config.lam, edges.count)

    columns = zip(*((c.step_size, c.penalty, cap(c)) for c in settings), strict=True)
    return Hyper(*(jnp.asarray(np.repeat(column, seeds), dtype=jnp.float32) for column in columns))
