"""`drogo train ENV`: trains agents that learn the map while they train, and agents without one."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from drogo.cli.output import (
    Actions,
    Env,
    Json,
    Key,
    Layout,
    Out,
    Overwrite,
    Tile,
    Whole,
    print_result,
    result_directory,
    terminal,
)
from drogo.errors import (
    ArgumentError,
    check_number,
    check_positive,
    check_share,
    check_whole,
    import_extra,
)
from drogo.progress import progress_bar

if TYPE_CHECKING:
    from rich.console import Console

    from drogo.requests import ResultDirectory
    from drogo.worlds.resolve import Environment, World
    from drogo_paper.engines import Job

STEPS = {"q-learning": 20_000, "dqn": 20_000, "ppo": 100_352}
FILES = {"curves": "curves.png", "map": "map.gif"}
STEPS_TO_TRY = 100
"""Random steps that show the rewards of an environment before any agent is trained."""


@dataclass(frozen=True)
class Train:
    """Train an agent that learns the map while it trains, and the same agent without a map.

    For tasks with terminal states, in which every step has a cost.
    """

    env: Env
    agent: Literal["q-learning", "dqn", "ppo"] = "dqn"
    """q-learning: a table, in grid worlds. dqn, ppo: those of Stable-Baselines3 (extra sb3)."""
    map: Literal["auto", "table", "network"] = "auto"
    """table: solve the problem that the agent has seen so far exactly, where observations repeat.
    network: learn a network. auto: a table where states have numbers, in grid worlds and in
    MiniGrid, and a network elsewhere."""
    steps: Annotated[
        Whole | None,
        tyro.conf.arg(metavar="INT", help_behavior_hint="(default: 20000; 100352 for ppo)"),
    ] = None
    """Environment steps of each agent."""
    seeds: int = 3
    """Number of agents of each kind."""
    lam: float = 20.0
    """Temperature lambda of the map."""
    weight: float = 0.5
    """Weight of the shaping reward, from 0 to 1."""
    optimism: float = 0.0
    """Terminal reward of untried actions in the map."""
    explore: Annotated[bool, tyro.conf.arg(help_behavior_hint="")] = True
    """Do not let the map choose the actions of dqn until a goal is reached."""
    discount: float = 0.99
    """Discount of the agents."""
    observation: Annotated[
        Literal["one-hot", "coordinates", "pixels", "state", "symbolic"] | None,
        tyro.conf.arg(help_behavior_hint="(default: coordinates; pixels in MiniGrid)"),
    ] = None
    """Observations of agent and map, as in `drogo learn`. Not for q-learning."""
    reward: Annotated[
        float | None, tyro.conf.arg(help_behavior_hint="(default: that of the environment)")
    ] = None
    """Reward of every step for the map, for example -1, if a Gymnasium environment's rewards are
    not negative."""
    key: Key = ()
    layout: Layout = None
    actions: Actions = ()
    tile: Tile = None
    workers: int = 0
    """Number of processes; 0 means one for each core."""
    out: Out = Path("results/train")
    overwrite: Overwrite = False
    json: Json = False

    def run(self) -> None:
        from drogo.worlds.resolve import resolve

        console = terminal(quiet=self.json)
        steps = STEPS[self.agent] if self.steps is None else self.steps
        _check_numbers(self, steps)
        names = ("observation", "key", "layout", "actions", "tile")
        world = resolve(self.env, **{name: getattr(self, name) for name in names})
        _check_options(self, world)
        label = f"{world.name}-{self.agent}-lam{self.lam:g}-{self.seeds}seeds"
        result = result_directory(self, world, label, steps=steps, workers=0, view=world.view)
        print_result(self, console, result, partial(self._train, world, steps, result, console))

    def _train(
        self, world: World, steps: int, result: ResultDirectory, console: Console
    ) -> dict[str, Any]:
        from drogo_paper.cli import train_report, train_runs
        from drogo_paper.engines import LocalEngine, Store

        with console.status(f"trying {world.name}"):
            _try_out(self, world)
        jobs = train_runs.jobs(self, steps)
        with result.begin(overwrite=self.overwrite):
            store = Store(result.path / "runs")
            store.clean()
            missing = [job for job in jobs.values() if not store.has(job)]
            try:
                with progress_bar(f"training {self.agent}") as update:
                    LocalEngine(self.workers).run(missing, store, _listener(missing, update))
            except KeyboardInterrupt:
                console.print("Finished runs are kept. The same command continues from here.")
                raise
            records = {key: store.get(job) for key, job in jobs.items()}
            finished = {key: record for key, record in records.items() if record is not None}
            pictures = train_report.pictures(self, world, finished)
            files = {kind: name for kind, name in FILES.items() if kind in pictures}
            report = {**train_report.report(self, world, finished), "files": files}
            return result.finish(report, **pictures)


def _listener(jobs: list[Job], update: Any) -> Any:
    """Returns a listener that shows the progress of all jobs, in hundredths of a job."""
    done = dict.fromkeys((job.label for job in jobs), 0.0)

    def listen(job: Job, what: str, amount: float) -> None:
        done[job.label] = amount if what == "progress" else 1.0 if what == "done" else 0.0
        share = sum(done.values())
        update(round(100 * share), 100 * len(jobs), f"{share:.1f} of {len(jobs)} runs")

    return listen


def _check_numbers(options: Train, steps: int) -> None:
    """Raises an error if a number cannot be used, whatever the world is."""
    check_whole("--seeds", options.seeds, 1)
    check_whole("--workers", options.workers, 0)
    check_whole("--steps", steps, 1)
    check_share("--weight", options.weight)
    check_share("--discount", options.discount)
    check_number("--optimism", options.optimism)
    check_positive("--lam", options.lam)
    if options.reward is not None and not check_number("--reward", options.reward) < 0:
        problem = f"--reward is {options.reward:g}; it must be negative, for example -1."
        raise ArgumentError(problem, argument="--reward")


def _check_options(options: Train, world: World) -> None:
    """Raises an error if an option does not apply to the agent or the world."""
    from drogo.worlds.resolve import Environment, GridMap

    is_table = options.agent == "q-learning"
    refused = {
        "--reward": (
            options.reward is not None and not isinstance(world, Environment),
            f"the rewards of {options.env} are negative already. Leave --reward out.",
        ),
        "--no-explore": (
            not options.explore and options.agent != "dqn",
            f"--no-explore is for dqn; {options.agent} never explores by the map. Leave it out.",
        ),
        "--agent": (
            is_table and not isinstance(world, GridMap),
            f"{options.env} is not a grid world, and q-learning is tabular. Use --agent dqn.",
        ),
        "--map": (
            is_table and options.map == "network",
            "the map of q-learning is a table. Leave --map out, or use --agent dqn.",
        ),
        "--observation": (
            is_table and options.observation is not None,
            "q-learning is tabular. Leave --observation out, or use --agent dqn.",
        ),
    }
    for argument, (is_refused, message) in refused.items():
        if is_refused:
            raise ArgumentError(message, argument=argument)
    if not is_table and importlib.util.find_spec("stable_baselines3") is None:
        import_extra("stable_baselines3", "Stable-Baselines3", extra="sb3")


def _try_out(options: Train, world: World) -> None:
    """Raises an error if agents or maps cannot be made, or if steps of the world have no cost."""
    if options.agent == "q-learning":
        return
    from drogo.worlds.resolve import Environment
    from drogo_paper.agents.deep import as_numbers
    from drogo_paper.cli import train_runs

    env = train_runs.env_of(world)
    train_runs.make_map(train_runs.settings_of(options), world, as_numbers(env))
    if isinstance(world, Environment):
        _try_rewards(options, world)


def _try_rewards(options: Train, world: Environment) -> None:
    """Takes some random steps: an agent with positive rewards has no reason to end an episode."""
    env = world.make(limited=True)
    env.action_space.seed(0)
    env.reset(seed=0)
    ordinary, rewards = [0.0], []
    for _ in range(STEPS_TO_TRY):
        _, reward, over, cut, info = env.step(env.action_space.sample())
        rewards.append(float(reward) - float(info.get("terminal_reward") or 0.0) * over)
        ordinary += [] if over else rewards[-1:]
        if over or cut:
            env.reset()
    env.close()
    most = max(ordinary)
    if most > 0:
        raise ArgumentError(
            f"a non-terminal step of {world.spec.id} has the reward {most:g}; `drogo train` is for "
            "tasks in which every step before a terminal state has a cost, also with --reward.",
            argument="env",
        )
    if world.sampling["reward"] is None and options.reward is None and max(rewards) >= 0:
        raise ArgumentError(
            f"a step of {world.spec.id} has the reward {max(rewards):g}, and the map needs a cost "
            "for every step. Give --reward -1: the map then counts steps.",
            argument="--reward",
        )
