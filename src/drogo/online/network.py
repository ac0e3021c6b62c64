"""`OnlineMap`: a network that learns the map while an agent acts.

NumPy evaluates a small MLP at a few observations in less time than it takes to call a compiled
program. Everything else is compiled: NumPy would share even small products of matrices among
threads, which is very slow wherever another process keeps a core busy.
"""

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Array, Bool, Float, Int, Shaped

from drogo.errors import ArgumentError, check_whole
from drogo.files import Header, as_section, check_memory, section
from drogo.learn.architectures import MLP, MOST_COORDINATES, Custom, Table, as_architecture
from drogo.learn.methods import Drogo
from drogo.learn.networks import AbstractNetwork, DenseNetwork, Inputs, dense, fourier
from drogo.learn.settings import as_json, from_keywords
from drogo.learn.train import by_path, check_leaves, tree_from
from drogo.mdp.arrays import as_floats
from drogo.online.base import AbstractOnlineMap, Logits
from drogo.online.judging import are_judged
from drogo.online.learner import (
    CELLS,
    OnlineLearner,
    OnlineSettings,
    Snapshot,
    resolved_method,
    resolved_optimiser,
)
from drogo.online.replay import OnlineState, Visits
from drogo.problems.column import Column
from drogo.problems.shared import filled, scale_of_costs
from drogo.use.options import FrozenMap
from drogo.use.shaping import Shaping, StepBatch, range_of

FEW = 4  # The largest number of observations that NumPy evaluates.
CHUNKS = (8, 64)
"""Steps go to the device in chunks of one of these sizes, since each size is compiled."""
PROGRAMS_KEPT = 8
"""The number of compiled programs that are kept, for learners that differ in more than arrays."""
ONE_THREAD = {"xla_cpu_multi_thread_eigen": False}
"""The matrices of an online map are so small that sharing them among threads costs time."""
STATE, STAGED = "state/", "staged/"


class Program:
    """The compiled functions of a learner, and its arrays: `equinox.filter_jit` would take both
    apart at every call, for longer than some updates take."""

    def __init__(self, learner: OnlineLearner, state: OnlineState) -> None:
        leaves, structure = jax.tree.flatten(learner)
        others = tuple(None if eqx.is_array(leaf) else leaf for leaf in leaves)
        self.learner, self.arrays = learner, [leaf for leaf in leaves if eqx.is_array(leaf)]
        self.of_state, self.of_params = map(jax.tree.structure, (state, state.average))
        self.advance, self.logits = _compiled(structure, others, self.of_state, self.of_params)


@functools.lru_cache(maxsize=PROGRAMS_KEPT)
def _compiled(structure: Any, others: Any, of_state: Any, of_params: Any) -> tuple[Callable, ...]:
    def learner_of(arrays: list[Array]) -> OnlineLearner:
        rest = iter(arrays)
        leaves = [next(rest) if leaf is None else leaf for leaf in others]
        return jax.tree.unflatten(structure, leaves)

    @functools.partial(jax.jit, donate_argnums=1, compiler_options=ONE_THREAD)
    def advance(
        arrays: list[Array],
        old: list[Array],
        steps: StepBatch,
        chosen: Any,
        updates: Any,
        judged: Any,
    ) -> tuple[list[Array], Array, Snapshot]:
        learner = learner_of(arrays)
        state = learner.observe(jax.tree.unflatten(of_state, old), steps, chosen)
        first, update = (state, jnp.zeros(())), lambda _, now: learner.update(now[0], judged)
        state, loss = jax.lax.fori_loop(0, updates, update, first)
        # A copy, because the next call takes the memory of the state.
        return jax.tree.leaves(state), loss, jax.tree.map(jnp.copy, learner.snapshot(state))

    @functools.partial(jax.jit, static_argnums=3, compiler_options=ONE_THREAD)
    def logits(arrays: list[Array], snapshot: Snapshot, seen: Any, averaged: bool) -> Array:
        learner, leaves = learner_of(arrays), snapshot.average if averaged else snapshot.latest
        network = learner.learner.network(jax.tree.unflatten(of_params, leaves))
        return learner.logits_of(network, snapshot, seen)

    return advance, logits


@dataclass(frozen=True)
class FrozenNetwork:
    """Evaluates a snapshot of a map, which nothing else changes."""

    program: Program
    snapshot: Snapshot

    @functools.cached_property
    def host(self) -> Snapshot:
        """The snapshot in arrays of NumPy. This waits for the update that it comes from."""
        return jax.tree.map(np.asarray, self.snapshot)

    @functools.cached_property
    def _networks(self) -> list[Any]:
        """The networks of the latest parameters and of their mean, in arrays of NumPy."""
        both = (self.host.latest, self.host.average)
        return [jax.tree.unflatten(self.program.of_params, leaves) for leaves in both]

    def logits(
        self, observations: Shaped[np.ndarray, "n ..."], *, averaged: bool = False
    ) -> Float[np.ndarray, "n actions"]:
        """Returns all logits, by the latest parameters or the mean; 0 before the first update."""
        n, program, host, learner = len(observations), self.program, self.host, self.program.learner
        network = learner.learner.skeleton
        if not host.updates:
            logits = np.zeros((n, learner.log_default.size))
        elif n <= FEW and isinstance(network, DenseNetwork) and learner.normalise:
            numbers = observations.reshape(n, host.shift.size).astype(np.float32)
            x = fourier((numbers - host.shift) * host.width, network.frequencies)
            logits = host.scale * dense(self._networks[averaged].layers, x, network.leak)
        else:
            rows = (filled(observations), averaged)
            logits = np.asarray(program.logits(program.arrays, self.snapshot, *rows))[:n]
        return np.asarray(logits, dtype=np.float64)


class OnlineMap(AbstractOnlineMap):
    """A network on observations that learns the map from an agent's steps.

    Args:
        observation_space: The observations of the agent: a `Box` of any shape.
        action_space: The actions, `Discrete`.
        problem: The problem, by default `drogo.Column()`.
        method: `drogo.Drogo` or a subclass. By default batches have 32 steps, the cap is 4, and the
            target rate 0.5, or 0.05 where an observation has more than 16 numbers.
        network: An architecture, an equinox module with one output for each action, or a function
            from a JAX key to a module. By default `drogo.learn.MLP(width=64, depth=3)`. An `MLP`
            sees flat observations, normalised by their range so far; other networks see
            observations as they are, and bytes as numbers in [-0.5, 0.5].
        optimiser: A `drogo.learn.Optimiser` with a constant schedule, or an optax transformation.
            By default Adam with a step size of 0.002.
        **settings: Fields of `Shaping` and `OnlineSettings`.
    """

    settings_kind: type[OnlineSettings] = OnlineSettings

    def __init__(
        self,
        observation_space: gymnasium.Space,
        action_space: gymnasium.Space,
        problem: Column | None = None,
        method: Drogo | None = None,
        *,
        network: Any = None,
        optimiser: Any = None,
        seed: int = 0,
        **settings: Any,
    ) -> None:
        shaping, self.settings = from_keywords(settings, Shaping, self.settings_kind)
        super().__init__(observation_space, action_space, problem, self.settings.optimism, shaping)
        self.until_found = self.settings.until_found
        self.seed, size = check_whole("seed", seed, 0), math.prod(self.shape)
        self.method, self.optimiser = resolved_method(method, size), resolved_optimiser(optimiser)
        self.network = MLP(width=64, depth=3) if network is None else as_architecture(network)
        if self.network.pairs or isinstance(self.network, Table):
            wrong = f"network is {self.network!r}; give a network of one observation."
            remedy = "For a table of states, use OnlineTable."
            raise ArgumentError(wrong, remedy=remedy, argument="network")
        if not isinstance(self.network, MLP):
            self._built()  # raises an error if it does not fit the observations
        sides = as_floats("sides", 1.0 if self.settings.sides is None else self.settings.sides)
        if sides.shape not in ((), (size,)) or not (np.isfinite(sides) & (sides > 0)).all():
            wrong = f"sides is {sides}; give a positive number, or one for each of {size}."
            raise ArgumentError(wrong, argument="sides")
        capacity = self.settings.capacity
        check_memory(f"a replay of {capacity} steps", 2 * capacity * size * self.dtype.itemsize)
        self._is_image = len(self.shape) in (2, 3) and size > MOST_COORDINATES
        self._is_image |= self.dtype == np.uint8
        low, high, bounded = range_of(observation_space)
        bounded &= not self._is_image  # most pixels never change: their range has to be seen
        self._low, self._high = np.where(bounded, low, np.inf), np.where(bounded, high, -np.inf)
        self._staged: list[StepBatch] = []
        self._due, self._scale, self._loss = 0.0, 1.0, np.zeros(())
        self._state: list[Array] = []
        self._frozen: FrozenNetwork | None = None

    @property
    def mean_step(self) -> float:
        step = 0.0 if self._frozen is None else float(self._frozen.host.mean_step)
        return step if step > 0 and math.isfinite(step) else 1.0

    @property
    def updates(self) -> int:
        """The number of updates so far."""
        return 0 if self._frozen is None else int(self._frozen.host.updates)

    @property
    def metrics(self) -> Mapping[str, float]:
        diverged = self._frozen is not None and int(self._frozen.host.diverged_at) >= 0
        counts = {"steps": self.steps, "updates": self.updates, "found": self.found}
        numbers = {"loss": self._loss, "mean_step": self.mean_step, "diverged": diverged}
        return {name: float(number) for name, number in (counts | numbers).items()}

    def state(self) -> tuple[OnlineLearner, OnlineState] | None:
        """Returns the pure learner and a copy of its state, with the rewards of the environment, or
        None before the first update."""
        if self._frozen is None:
            return None
        program, copies = self._frozen.program, list(map(jnp.copy, self._state))
        return program.learner, jax.tree.unflatten(program.of_state, copies)

    def _add(self, steps: StepBatch) -> None:
        self._staged.append(StepBatch(*map(np.array, steps)))  # copies: callers reuse their buffers
        self._due += self.settings.updates_per_step * len(steps.reward)

    def train(self) -> None:
        if self.steps < self.settings.learning_starts or not self._staged:
            return
        waiting = sum(len(steps.reward) for steps in self._staged)
        if self._frozen is None:  # it is known now what observations and rewards look like
            first = _joined(self._staged)
            rewards = (first.reward, are_judged(first), first.reward)
            self._scale = scale_of_costs(self.judging.costs().of_steps(*rewards)[0], self.lam)
            seen = first.observation.reshape(len(first.reward), -1).astype(np.float64)
            low = np.where(np.isfinite(self._low), self._low, seen.min(axis=0))
            high = np.where(np.isfinite(self._high), self._high, seen.max(axis=0))
            sides = np.where(high > low, high - low, 1.0) / CELLS
            if self.settings.sides is not None:
                sides = self.settings.sides
            elif self._is_image:  # every difference counts
                sides = 1.0 if self.dtype.kind in "iub" else 1 / 256
            self._keep(*self._first(self._scale, sides))
            self._due = 1.0
        elif waiting < self.settings.train_every:
            return
        assert self._frozen is not None
        staged, self._staged, program = _joined(self._staged), [], self._frozen.program
        judged = (self.judging.costs().numbers.astype(np.float32), np.float32(self.judging.best()))
        for begin in range(0, waiting, CHUNKS[-1]):  # all updates follow the last chunk
            steps = StepBatch(*(column[begin : begin + CHUNKS[-1]] for column in staged))
            updates, n = int(self._due) if begin + CHUNKS[-1] >= waiting else 0, len(steps.reward)
            size = next(chunk for chunk in CHUNKS if n <= chunk)
            longer = StepBatch(*(np.resize(column, (size, *column.shape[1:])) for column in steps))
            rest = (longer, np.arange(size) < n, np.asarray(updates, np.int32), judged)
            self._state, loss, snapshot = program.advance(program.arrays, self._state, *rest)
            self._frozen = FrozenNetwork(program, snapshot)
            self._due -= updates
            self._loss = loss if updates else self._loss  # not a number yet: that would wait

    def _keep(self, learner: OnlineLearner, state: OnlineState) -> None:
        program = Program(learner, state)
        # A copy of each: no array may be donated twice.
        self._state = [jnp.copy(part) for part in jax.tree.leaves(state)]
        self._frozen = FrozenNetwork(program, jax.tree.map(jnp.copy, learner.snapshot(state)))

    def _built(self) -> AbstractNetwork:
        size, flat = math.prod(self.shape), isinstance(self.network, MLP)
        shape, dtype = ((1, size), np.float32) if flat else ((1, *self.shape), self.dtype)
        example = Inputs()(np.zeros(shape, jax.dtypes.canonicalize_dtype(dtype)))
        return self.network.build(example, self.n_actions, jax.random.key(self.seed))

    def _first(self, scale: float, sides: Any = 1.0) -> tuple[OnlineLearner, OnlineState]:
        network, normalise = self._built(), None
        if isinstance(self.network, MLP) and self.network.normalise:
            normalise = "mean" if self.network.centred else "middle"
        options = {"optimiser": self.optimiser, "settings": self.settings, "scale": scale}
        parts = (self.problem, self.method, network, self.n_actions)
        learner = OnlineLearner(*parts, normalise=normalise, **options)
        key = jax.random.PRNGKey(self.seed)  # of plain numbers, which a file can hold
        example = jnp.zeros(self.shape, jax.dtypes.canonicalize_dtype(self.dtype))
        rest = {"low": self._low, "high": self._high, "sides": sides}
        return learner, learner.init(network, key, example, capacity=self.settings.capacity, **rest)

    def values(self, observations: npt.ArrayLike) -> Float[np.ndarray, " n"]:
        batch, frozen = self.checked(observations), self._frozen
        if frozen is None or not frozen.host.updates:
            return np.zeros(len(batch))
        v = np.logaddexp.reduce(frozen.logits(batch, averaged=True), axis=1)
        return np.minimum(v, float(frozen.host.ceiling))

    def knows(self, observations: npt.ArrayLike) -> Bool[np.ndarray, " n"]:
        return np.full(len(self.checked(observations)), self.updates > 0)

    def logits(self, observations: npt.ArrayLike) -> Float[np.ndarray, "n actions"]:
        frozen = self._frozen
        return (frozen.logits if frozen is not None else self._zeros)(self.checked(observations))

    def known_logits(self, observations: npt.ArrayLike) -> Logits:
        logits = self.logits(observations)
        if self._frozen is None:
            return logits
        state = jax.tree.unflatten(self._frozen.program.of_state, self._state)
        tried = np.asarray(_visits(state.visits, self.checked(observations))) > 0
        return np.where(tried | ~tried.any(axis=1, keepdims=True), logits, -np.inf)

    def act(self, observations: npt.ArrayLike, rng: np.random.Generator) -> Int[np.ndarray, " n"]:
        over = self.optimism is None or (self.found and self.until_found)
        return self._best((self.known_logits if over else self.logits)(observations), rng)

    def _zeros(self, observations: npt.ArrayLike) -> Float[np.ndarray, "n actions"]:
        return np.zeros((len(self.checked(observations)), self.n_actions))

    def frozen(self) -> FrozenMap:
        network, current = self._frozen, self.state()
        if network is None or current is None:
            return FrozenMap(self._zeros, lambda batch: self._zeros(batch) == 0, is_done=False)
        visits = current[1].visits
        return FrozenMap(
            lambda batch: network.logits(self.checked(batch), averaged=True),
            lambda batch: np.asarray(_visits(visits, self.checked(batch))) == 0,
            is_done=bool(visits.are_complete),
        )

    def request(self) -> dict[str, Any]:
        network = self.network.given if isinstance(self.network, Custom) else self.network
        parts = {"method": self.method, "network": network, "optimiser": self.optimiser}
        settings = {**asdict(self.settings), "seed": self.seed}
        if self.settings.sides is not None:
            settings["sides"] = np.asarray(self.settings.sides).tolist()
        return super().request() | {k: as_json(part) for k, part in parts.items()} | settings

    def arrays(self) -> dict[str, np.ndarray]:
        current = self.state()
        arrays = super().arrays()
        if current is not None:
            arrays |= as_section(STATE, by_path(current[1]))
        if self._staged:
            arrays |= as_section(STAGED, _joined(self._staged)._asdict())
        numbers = (self.steps, self._due, self.found, self._scale, float(self._loss))
        return arrays | {"numbers": np.array(numbers, dtype=np.float64)}

    def check_arrays(self, headers: Mapping[str, Header]) -> None:
        super().check_arrays(headers)
        stored = section(headers, STATE)
        if headers["numbers"].shape != (5,):
            raise ValueError("its numbers are missing")
        if stored:
            check_leaves(stored, jax.eval_shape(lambda: self._first(1.0)[1]))

    def continue_from(self, arrays: dict[str, np.ndarray]) -> None:
        super().continue_from(arrays)
        count, self._due, found, self._scale, loss = arrays["numbers"].tolist()
        self.steps, self.found, self._loss = int(count), bool(found), np.asarray(loss)
        staged, stored = section(arrays, STAGED), section(arrays, STATE)
        self._staged = [StepBatch(**staged)] if staged else []
        self._frozen = None
        if stored:
            learner, like = self._first(self._scale)
            self._keep(learner, tree_from(stored, like))


_visits = jax.jit(Visits.of)


def _joined(parts: list[StepBatch]) -> StepBatch:
    """Returns several batches as one, in single precision."""
    joined = StepBatch(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    names = ("reward", "terminal_reward")
    return joined._replace(**{name: getattr(joined, name).astype(np.float32) for name in names})
