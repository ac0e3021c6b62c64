"""`LogEigenvector`: what a fit gives back. It knows how it was made and whether it worked."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, Shaped

from drogo import config as configs
from drogo.config import Config
from drogo.data.transitions import merge_equal
from drogo.errors import ArgumentError
from drogo.files import read_array_file, write_array_file
from drogo.learn import networks, train
from drogo.learn.diagnose import diagnose
from drogo.learn.inputs import Inputs
from drogo.learn.train import Lane, Program
from drogo.potential import Potential

FORMAT = "drogo fit 5"
NUMBERS_AT_ONCE, MOST_AT_ONCE = 2**22, 4096
"""Numbers, and observations, that a network is shown at a time when it is only evaluated."""
FEW = 64


@dataclass(frozen=True, eq=False, repr=False)
class LogEigenvector:
    """The learned vector, one per seed."""

    v: Float[np.ndarray, "seeds distinct"]
    """log e at every distinct observation of the data, 0 (or the end's own value) at the ends. For
    `gdo`, which learns e itself and may get its sign wrong: log |e|."""
    status: tuple[str, ...]
    """Per seed: "converged", "max_updates" or "diverged"."""
    diverged_at: tuple[int | None, ...]
    """Per seed: the update at which it diverged."""
    history: Mapping[str, np.ndarray]
    """`update` (logged,) and (logged, seeds) arrays: `loss`; of the states' equations the mean
    `violation`, the `worst` and the `spread` (largest less smallest); `at_cap`, the share of steps
    at which v(s') - v(s) is at the cap; `level`, the mean of v; and `cosine_NAME`,
    `difference_NAME`, `mean_difference_NAME` for each truth that was given."""
    config: Config
    seeds: tuple[int, ...]
    observations: Shaped[np.ndarray, "distinct ..."]
    ends: Int[np.ndarray, " ends"]
    end_values: Float[np.ndarray, " ends"]
    lanes: Lane
    """The state of training, from which it can go on."""
    network: str
    versions: Mapping[str, str]
    data_id: str
    """Of the transitions it was trained on."""
    inputs: Inputs
    """What is done to observations before the network sees them."""
    mean_step: Float[np.ndarray, " seeds"]
    """Mean absolute difference of v between neighbours in the data: what a potential is scaled
    by."""

    def __repr__(self) -> str:
        return (
            f"LogEigenvector({len(self.seeds)} seed(s), {self.v.shape[1]} observations, "
            f"{self.config.objective}, lam {self.config.lam:g}, {self.updates} updates, status: "
            f"{', '.join(f'{self.status.count(s)} {s}' for s in sorted(set(self.status)))})"
        )

    @property
    def updates(self) -> int:
        return int(np.asarray(self.lanes.update).max())

    def __call__(self, observations: Any) -> Float[np.ndarray, "seeds batch"]:
        """log e of any observations, also unseen ones; an end seen in the data gets its value."""
        batch = np.asarray(observations)
        expected = self.observations.shape[1:]
        if batch.shape[1:] != expected:
            raise ArgumentError(
                f"observations have shape {batch.shape[1:]} each; this fit was trained on "
                f"{expected}. Give a batch: (n, {', '.join(map(str, expected))})."
            )
        batch = as_type(batch, self.observations.dtype)
        out = raw_output(self.program, self.lanes.params, batch)
        v = _as_log(out, self.config)
        if self.config.objective == "drogo":
            known = self.observations[self.ends]
            table, index = merge_equal(np.concatenate([known, batch]))
            value = np.full(len(table), np.nan)
            value[index[: len(known)]] = self.end_values
            told = value[index[len(known) :]]
            v = np.where(np.isnan(told), v, told)
        return v

    def diagnosis(self) -> list[str]:
        """What is wrong with seeds that have not converged, and what may help; empty if nothing."""
        return [
            f"seed {seed}: {told}"
            for k, seed in enumerate(self.seeds)
            if (told := diagnose({name: rows[..., k] for name, rows in self.history.items()
                                  if name != "update"}, self.status[k]))
        ]  # fmt: skip

    def potential(self, seed: int = 0, *, normalised: bool = True) -> Potential:
        """One seed's vector as a potential for `PotentialShaping`: v, or v by its mean step.

        Observations of the data are looked up, others go through the network.
        """
        if seed not in self.seeds:
            raise ArgumentError(f"seed {seed} is none of this fit's: {list(self.seeds)}.")
        k = self.seeds.index(seed)
        if self.status[k] == "diverged":
            raise ArgumentError(
                f"seed {seed} diverged at update {self.diverged_at[k]}; it is no potential. Use "
                "another seed, or train again."
            )
        scale = float(self.mean_step[k]) if normalised else 1.0
        if not scale > 0:
            raise ArgumentError(f"seed {seed} learned a constant; it cannot be normalised.")
        params = jax.tree.map(lambda leaf: leaf[k : k + 1], self.lanes.params)

        def output(batch: np.ndarray) -> np.ndarray:
            return _as_log(raw_output(self.program, params, batch), self.config)[0]

        shift = 0.0
        if self.config.objective != "drogo":  # v is of unit norm there, the network is not
            shift = float(self.v[k, 0] - output(self.observations[:1])[0])
        name = f"the potential of a fit (seed {seed})"
        other = Potential(lambda batch: (output(batch) + shift) / scale, name=name)
        return Potential.from_states(
            self.observations, self.v[k] / scale, name=name, otherwise=other
        )

    @cached_property
    def program(self) -> Program:
        """Compiled once, on first use."""
        return train.program(
            self.config, skeleton(self.network, self.observations, self.config, self.inputs)
        )

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """One `.npz`: arrays and network leaves without objects, settings and status as JSON."""
        arrays = {
            "v": self.v,
            "observations": self.observations,
            "ends": self.ends,
            "end_values": self.end_values,
            "mean_step": self.mean_step,
            **{f"history/{name}": values for name, values in self.history.items()},
            **leaves_as_arrays(self.lanes),
        }
        settings = {
            "format": FORMAT,
            "config": configs.as_json(self.config),
            "seeds": list(self.seeds),
            "status": list(self.status),
            "diverged_at": list(self.diverged_at),
            "network": self.network,
            "versions": dict(self.versions),
            "data_id": self.data_id,
            "inputs": self.inputs.as_json(),
        }
        write_array_file(Path(path), arrays, settings, overwrite=overwrite)


def load(path: str | Path) -> LogEigenvector:
    """A saved fit."""
    arrays, settings = read_array_file(Path(path))
    if settings.get("format") != FORMAT:
        raise ArgumentError(f"{path} does not hold a fit; it says {settings.get('format')!r}.")
    config = configs.from_json(settings["config"])
    observations = arrays["observations"]
    inputs = Inputs.from_json(settings["inputs"])
    lanes = lanes_from_arrays(
        config, settings["network"], observations, inputs, len(settings["seeds"]), arrays
    )
    return LogEigenvector(
        v=arrays["v"],
        status=tuple(settings["status"]),
        diverged_at=tuple(settings["diverged_at"]),
        history={
            name.removeprefix("history/"): values
            for name, values in arrays.items()
            if name.startswith("history/")
        },
        config=config,
        seeds=tuple(settings["seeds"]),
        observations=observations,
        ends=arrays["ends"],
        end_values=arrays["end_values"],
        lanes=lanes,
        network=settings["network"],
        versions=settings["versions"],
        data_id=settings["data_id"],
        inputs=inputs,
        mean_step=arrays["mean_step"],
    )


def as_type(batch: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Observations in the type that a network was trained on; an error if that loses anything."""
    cast = batch.astype(dtype, copy=False)
    if np.issubdtype(dtype, np.integer) and (cast != batch).any():
        raise ArgumentError(
            f"this fit was trained on {dtype}, and these ({batch.dtype}) are not whole "
            "numbers of it. Were images scaled to [0, 1]? Give them as they were in the data."
        )
    return cast


def _as_log(out: np.ndarray, config: Config) -> np.ndarray:
    """`gdo` learns e itself, the other objectives its logarithm."""
    return np.log(np.abs(out)) if config.objective == "gdo" else out


def build_networks(
    kind: str, observations: np.ndarray, config: Config, inputs: Inputs, seeds: list[int]
) -> Any:
    """Stacked parameters and the static rest, one network per seed."""
    size = int(np.prod(observations.shape[1:], dtype=np.int64))
    few = observations.ndim == 2 and size <= configs.MOST_COORDINATES
    frequencies = config.frequencies if few else 0
    initial = 1.0 if config.objective == "gdo" else 0.0
    made = [
        networks.build(kind, observations, frequencies, initial, jax.random.key(seed), inputs)
        for seed in seeds
    ]
    parts = [eqx.partition(network, eqx.is_array) for network in made]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(params for params, _ in parts))
    return stacked, parts[0][1]


def skeleton(kind: str, observations: np.ndarray, config: Config, inputs: Inputs) -> Any:
    """The static part of a network: what is left when the arrays are taken out."""
    return build_networks(kind, observations, config, inputs, [0])[1]


def raw_output(program: Program, params: Any, observations: np.ndarray) -> np.ndarray:
    """Outputs of every lane, for a bounded number of observations at a time.

    Pieces are filled up to few shapes, since each is compiled once: all of one size, but a single
    small one (the steps of some agents) to a power of two.
    """
    row = max(1, int(np.prod(observations.shape[1:], dtype=np.int64)))
    size = int(np.clip(NUMBERS_AT_ONCE // row, 64, MOST_AT_ONCE))
    parts = []
    for start in range(0, len(observations), size):
        shown = np.asarray(observations[start : start + size])
        short = size - len(shown) if start else 0
        if len(observations) <= FEW:
            short = (1 << (len(shown) - 1).bit_length()) - len(shown)
        if short:
            shown = np.concatenate([shown, np.repeat(shown[-1:], short, axis=0)])
        out = np.asarray(program.evaluate(params, shown), dtype=np.float64)
        parts.append(out[:, : out.shape[1] - short])
    return np.concatenate(parts, axis=1)


def leaves_as_arrays(lanes: Lane) -> dict[str, np.ndarray]:
    return {f"leaf/{k:03d}": np.asarray(leaf) for k, leaf in enumerate(jax.tree.leaves(lanes))}


def lanes_from_arrays(
    config: Config,
    kind: str,
    observations: np.ndarray,
    inputs: Inputs,
    lanes: int,
    arrays: Mapping[str, Any],
) -> Lane:
    """Put saved leaves back into their places; shapes and types must match."""
    one, static = build_networks(kind, observations, config, inputs, [0])
    params = jax.tree.map(lambda x: jax.ShapeDtypeStruct((lanes, *x.shape[1:]), x.dtype), one)
    fresh = jax.eval_shape(train.program(config, static).init, params)
    leaves, structure = jax.tree.flatten(fresh)
    saved = [arrays[name] for name in sorted(arrays) if name.startswith("leaf/")]
    if [(x.shape, str(x.dtype)) for x in leaves] != [(x.shape, str(x.dtype)) for x in saved]:
        raise ArgumentError("the saved network does not fit its settings: the file is damaged.")
    return jax.tree.unflatten(structure, [jnp.asarray(leaf) for leaf in saved])


def versions() -> dict[str, str]:
    """What a result was made with."""
    packages = ("drogo", "jax", "jaxlib", "equinox", "optax", "numpy")
    found = {name: importlib.metadata.version(name) for name in packages}
    return {"python": platform.python_version(), **found}
