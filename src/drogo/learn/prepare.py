"""Puts together what a fit needs: the learner, the data on the device, the judge."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

import equinox as eqx
import jax
import numpy as np
import optax
from jaxtyping import Float

from drogo.config import CUSTOM, Config
from drogo.data import Transitions
from drogo.data.empirical import check_anchored, empirical
from drogo.device import to_device
from drogo.errors import ArgumentError
from drogo.exact.sampled import solve_sampled
from drogo.learn.build import build, choose
from drogo.learn.identity import data_digest, describe, digest_of, fingerprint
from drogo.learn.inputs import Inputs, fit_inputs
from drogo.learn.judge import Judge
from drogo.learn.learner import Learner, State, scale_by_step_size
from drogo.learn.numbers import make_numbers
from drogo.learn.objectives import OBJECTIVES, AbstractObjective, Numbers
from drogo.learn.plan import BYTES_IN_RESULT, Plan, make_plan
from drogo.learn.sampling import known_values, make_data
from drogo.learn.train import Judging, Training

Vector = Float[np.ndarray, " distinct"]
Truth = Mapping[str, Vector | Callable[[float], Vector]]


def prepare(
    data: Transitions,
    configs: list[Config],
    seeds: list[int],
    truth: Truth | None,
    own: Mapping[str, Any],
    inputs: Inputs | None = None,
) -> tuple[Training, State]:
    """Returns everything that training needs, and the states of all lanes before it.

    Args:
        data: The transitions.
        configs: The settings of each point of a grid. The lanes are all seeds of each point.
        seeds: The seeds.
        truth: Known vectors to compare with.
        own: What the user gave as objects: network, optimiser, objective, schedule.
        inputs: How observations are turned into numbers; derived from the data unless given.
    """
    for lam in {config.lam for config in configs}:
        check_anchored(data, lam)
    warn_of_mixed_states(data, stacklevel=5)
    auto = configs[0].network == "auto"
    network = choose(data.observations) if auto else configs[0].network
    configs = [replace(config, network=network) for config in configs]
    config, objective = configs[0], make_objective(configs[0], own)
    truths = _truths(truth or {}, data, [config for config in configs for _ in seeds])
    solution = _solution(data, objective, configs)
    _check_actions_and_solution(data, objective, config, solution)
    numbers = make_numbers(data, configs, objective, solution)
    objectives = [objective.with_numbers(take(numbers, k)) for k in range(len(configs))]
    source = None
    if solution is not None and config.direct:
        source = known_values(data, solution[0], config.lam, per_action=objective.per_action)
    if not objective.anchored:
        data = data.with_absorbing_terminals(config.delta)

    def make_judge(plan: Plan, learner: Learner, numbers: Numbers, lanes: list[Config]) -> Judge:
        known = None if solution is None else np.repeat(solution, len(seeds), axis=0)
        return Judge(data, plan, learner, numbers, lanes, truths, known)

    identity = {"truth": {name: digest_of(rows) for name, rows in sorted(truths.items())}}
    return prepare_lanes(
        data, configs, seeds, objectives, own, make_judge, identity, inputs=inputs, source=source
    )


def prepare_lanes(
    data: Transitions,
    configs: list[Config],
    seeds: list[int],
    objectives: list[AbstractObjective],
    own: Mapping[str, Any],
    make_judge: Callable[[Plan, Learner, Numbers, list[Config]], Judging],
    identity: Mapping[str, Any],
    *,
    inputs: Inputs | None = None,
    source: Any = None,
) -> tuple[Training, State]:
    """Returns what `prepare` does, for an objective and a judge of any kind.

    Args:
        data: The transitions.
        configs: The settings of each point of a grid; `config.network` is not "auto". The lanes are
            all seeds of each point.
        seeds: The seeds.
        objectives: What is minimised at each point. They differ in their numbers alone.
        own: What the user gave as objects: network, optimiser, schedule.
        make_judge: From the plan, the learner, and the numbers and settings of each lane to what
            measures them.
        identity: What must agree for a checkpoint to belong to this fit, besides data, settings,
            seeds and the user's objects.
        inputs: How observations are turned into numbers; derived from the data unless given.
        source: What is trained on, in place of the transitions.
    """
    config, objective = configs[0], objectives[0]
    inputs = inputs or make_inputs(data, config)
    parts = (config, data.observations, inputs, objective, seeds, own, data.n_actions)
    learner, params = make_learner(*parts)
    plan = make_plan(data, objective, config)
    if source is None:
        source = data.edges if plan.whole else data
    device_data, sampler = make_data(data, source, plan, learner, seeds, config)
    numbers = jax.tree.map(
        lambda *leaves: to_device(np.repeat(np.stack(leaves), len(seeds), axis=0)),
        *(one.numbers for one in objectives),
    )
    judge = make_judge(plan, learner, numbers, [one for one in configs for _ in seeds])
    whole_identity = {
        "configs": [one.as_json() for one in configs],
        "seeds": seeds,
        "data": data_digest(data),
        "own": {name: describe(part) for name, part in sorted(own.items())},
        **identity,
    }
    if "optimiser" in own:
        whole_identity["optimiser"] = fingerprint(learner, params)
    schedule = make_schedule(config, own)
    training = Training(judge, device_data, sampler, seeds, schedule, whole_identity)
    lanes = np.tile(np.arange(len(seeds)), len(configs))
    return training, init_lanes(learner, take(params, lanes))


def make_inputs(data: Transitions, config: Config) -> Inputs:
    """Returns how observations are turned into numbers.

    Args:
        data: The transitions.
        config: The settings; `config.network` is not "auto".
    """
    return fit_inputs(
        data.observations,
        normalise=config.normalise,
        by_pixel=config.network == "mlp" and data.observations.nbytes <= BYTES_IN_RESULT,
        by_state=config.network == "table",
    )


def make_schedule(config: Config, own: Mapping[str, Any]) -> Any:
    """Returns the schedule of the step size: from numbers of updates to factors.

    Args:
        config: The settings.
        own: What the user gave as objects.
    """
    if "schedule" in own:
        return own["schedule"]
    if config.schedule == "cosine":
        return optax.cosine_decay_schedule(1.0, config.updates)
    return optax.constant_schedule(1.0)


def _check_actions_and_solution(
    data: Transitions, objective: AbstractObjective, config: Config, solution: object
) -> None:
    if objective.per_action and data.n_actions is None:
        raise ArgumentError(
            f"objective {config.objective!r} has a value for each action, and these transitions "
            "have no discrete actions. Collect them with drogo.collect, or give action= and "
            "n_actions= to Transitions.from_arrays."
        )
    if config.direct and solution is None:
        raise ArgumentError(
            "direct=True fits a network to the exact solution of the data, which exists only "
            "where states repeat, and for the objectives drogo and q. Use preset='stable'."
        )


def make_objective(config: Config, own: Mapping[str, Any]) -> AbstractObjective:
    """Returns the objective of a configuration, without its numbers.

    Args:
        config: The settings.
        own: What the user gave as objects.
    """
    factory = own.get("objective") or OBJECTIVES.get(config.objective)
    if factory is None:
        raise ArgumentError(
            "this fit has an objective of the user's own, which a file cannot hold.",
            remedy="Give the class again: load(path, objective=...).",
        )
    objective = factory(Numbers())
    if not isinstance(objective, AbstractObjective):
        raise ArgumentError(
            f"objective made a {type(objective).__name__}; it must make a "
            "drogo.learn.AbstractObjective."
        )
    return objective


def make_learner(
    config: Config,
    observations: np.ndarray,
    inputs: Inputs,
    objective: AbstractObjective,
    seeds: list[int],
    own: Mapping[str, Any],
    n_actions: int | None = None,
) -> tuple[Learner, Any]:
    """Returns the learner of a configuration, and the first parameters of every seed.

    Args:
        config: The settings.
        observations: The table of observations, or some like them.
        inputs: How observations are turned into numbers.
        objective: What is minimised.
        seeds: The seeds.
        own: What the user gave as objects: network, optimiser.
        n_actions: The number of actions, if they are discrete and known.
    """
    rest = (objective.initial_output, objective.outputs(n_actions), own.get("network"))
    networks = [build(config, observations, inputs, jax.random.key(seed), *rest) for seed in seeds]
    networks = [objective.hold(network) for network in networks]
    params = [eqx.filter(network, eqx.is_inexact_array) for network in networks]
    optimiser = own.get("optimiser") or make_optimiser(config.optimiser, config.clip_norm)
    learner = Learner(
        objective,
        networks[0],
        optimiser,
        inputs=inputs,
        target_rate=config.target_rate,
        direct=config.direct,
        emphasis=config.emphasis,
    )
    return learner, jax.tree.map(lambda *leaves: to_device(np.stack(leaves)), *params)


@lru_cache
def make_optimiser(name: str, clip_norm: float) -> optax.GradientTransformationExtraArgs:
    """Returns an optimiser whose step size is an argument of every update.

    The same object is returned every time, so that a second fit compiles nothing.
    """
    if name == CUSTOM:  # a loaded fit whose optimiser was not given again: it cannot go on
        return optax.with_extra_args_support(optax.identity())
    scale = {"adam": optax.scale_by_adam, "rmsprop": optax.scale_by_rms}[name]
    return optax.chain(optax.clip_by_global_norm(clip_norm), scale(), scale_by_step_size())


def _solution(
    data: Transitions, objective: AbstractObjective, configs: list[Config]
) -> Float[np.ndarray, "lanes distinct"] | None:
    """Returns the exact solution of the data in each lane, if the objective has one."""
    if not (objective.is_column and data.repeats and data.observations.nbytes <= BYTES_IN_RESULT):
        return None
    terminal = data.pure_terminal_states

    @cache
    def solve(lam: float, scaled: bool) -> np.ndarray:
        v = solve_sampled(empirical(data, lam), scaled=scaled)
        v[terminal[0]] = terminal[1] / lam
        return v

    return np.stack([solve(config.lam, config.scaled) for config in configs])


def _truths(
    truth: Truth, data: Transitions, configs: list[Config]
) -> dict[str, Float[np.ndarray, "lanes distinct"]]:
    m = len(data.observations)
    truths = {}
    for name, vector in truth.items():
        rows = [vector(c.lam) if callable(vector) else vector for c in configs]
        wrong = {np.shape(row) for row in rows} - {(m,)}
        if wrong:
            raise ArgumentError(
                f"truth {name!r} has shape {wrong.pop()}; expected one number for each of the {m} "
                "distinct observations, in their order.",
                remedy="For a vector over mdp.states, give "
                "vector[mdp.index_of(data.observations)].",
            )
        truths[name] = np.array(rows, dtype=np.float64)
    return truths


def warn_of_mixed_states(data: Transitions, stacklevel: int) -> None:
    """Warns of observations that stand for terminal and for other states.

    Args:
        data: The transitions.
        stacklevel: As of `warnings.warn`, where this function's own line is 1.
    """
    mixed = data.terminal_states.size - data.pure_terminal_states[0].size
    if mixed:
        warnings.warn(
            f"{mixed} observation(s) are terminal states in some transitions and ordinary states "
            "in others. They get one value for both. If there is an observation that tells the two "
            "apart, use it.",
            UserWarning,
            stacklevel=stacklevel,
        )


@eqx.filter_jit
def init_lanes(learner: Learner, params: Any) -> State:
    """Returns the states of all lanes before their first update."""
    return jax.vmap(learner.init)(params)


def take(tree: Any, lanes: Any) -> Any:
    """Returns some lanes of a tree of arrays. NumPy does it, which compiles nothing."""
    return jax.tree.map(lambda leaf: to_device(np.asarray(leaf)[lanes]), tree)
