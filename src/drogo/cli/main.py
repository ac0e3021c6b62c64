"""The command line. Each verb is a frozen dataclass: its fields are the options.

Nothing heavy is imported before a verb runs, so that `--help` is immediate.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro


@dataclass(frozen=True)
class Envs:
    """List the worlds that are shipped."""

    json: bool = False
    """Print JSON for machines instead of a table."""

    def run(self) -> None:
        from drogo.cli import envs

        envs.run(as_json=self.json)


@dataclass(frozen=True)
class Exact:
    """Compute the truth in closed form: a picture and a file."""

    env: tyro.conf.Positional[str]
    """A shipped world, a map file, or a Gymnasium id."""
    lam: float = 20.0
    """Temperature lambda: smaller is more reward-aware."""
    definition: Literal["column", "transition", "representation", "right"] = "column"
    """Which vector: the fixed point of the DROGO loss, or an eigenvector of the DR."""
    delta: float = 0.001
    """Reward of an absorbing terminal state, sign turned."""
    terminal: Literal["absorbing", "zero-row"] = "absorbing"
    """How a terminal state enters the DR."""
    reward: float | None = None
    """Step cost that replaces a Gymnasium environment's own reward, for example -1 (ends get 0)."""
    out: Path = Path("results/exact")
    """Directory for the picture (.png) and the vector (.npz)."""
    overwrite: bool = False
    """Replace files that are already there."""
    json: bool = False
    """Print JSON for machines instead of a table."""

    def run(self) -> None:
        from drogo.cli import exact

        exact.run(self)


@dataclass(frozen=True)
class Learn:
    """Learn it from transitions, compare with the truth, draw it."""

    env: tyro.conf.Positional[str]
    """A shipped world, a map file, or a Gymnasium id."""
    observation: Literal["one-hot", "coordinates", "pixels", "state", "symbolic"] | None = None
    """What the network sees of a grid world: coordinates unless given; state is the tabular case. A
    MiniGrid environment is seen as pixels, or symbolic."""
    preset: Literal["auto", "fast", "stable", "paper"] = "auto"
    """fast: small worlds whose states repeat. stable: all others. auto: the one of these that suits
    the data. paper: exactly the paper's settings."""
    objective: Literal["drogo", "natural_gdo", "log_gdo", "gdo"] = "drogo"
    """The loss."""
    seeds: int = 3
    """How many networks, trained at once."""
    lam: float = 20.0
    """Temperature lambda: smaller is more reward-aware."""
    updates: int | None = None
    """Number of updates; the preset's unless given."""
    step_size: float | None = None
    """Step size; the preset's unless given."""
    transitions: int = 200_000
    """How many to collect."""
    data_seed: int = 0
    """Seed of the transitions."""
    reward: float | None = None
    """Step cost that replaces a Gymnasium environment's own reward, for example -1 (ends get 0)."""
    key: str | None = None
    """Which part of a Dict observation to learn from."""
    layout: int = 0
    """Seed of a MiniGrid environment's grid."""
    tile: int = 3
    """Pixels a cell of a MiniGrid environment."""
    out: Path = Path("results/learn")
    """Directory; each run gets one of its own in it, named by its settings."""
    resume: bool = False
    """Go on with an interrupted run."""
    overwrite: bool = False
    """Start anew even if there is a result or an interrupted run."""
    json: bool = False
    """Print JSON for machines instead of a table."""

    def run(self) -> None:
        from drogo.cli import learn

        learn.run(self)


@dataclass(frozen=True)
class Shape:
    """Shape Q-learning with it, against its baselines: a table, learning curves, paths."""

    env: tyro.conf.Positional[str]
    """A shipped world or a map file."""
    inputs: tuple[Literal["one-hot", "coordinates", "pixels"], ...] = (
        "one-hot",
        "coordinates",
        "pixels",
    )
    """What the networks see that learn the potentials: one method for each."""
    potential: Path | None = None
    """A fit saved by `drogo learn` to use instead of learning."""
    preset: Literal["fast", "paper"] = "fast"
    """Of the fits."""
    seeds: int = 10
    """Agents, and networks: the agent of a seed is shaped by the network of that seed."""
    lam: float = 20.0
    """Temperature lambda: smaller is more reward-aware."""
    steps: int = 100_000
    """Training steps of an agent."""
    discount: float = 0.99
    """Of the agents, and of the successor representation."""
    epsilon: float = 0.05
    """Share of random actions."""
    terminal: Literal["keep", "zero"] = "keep"
    """Potential of an end: as it is (the paper's recipe), or 0 (leaves the best policy alone)."""
    out: Path = Path("results/shape")
    """Directory; each run gets one of its own in it, named by its settings."""
    fits: Path = Path("results/learn")
    """Directory of the fits: where `drogo learn` keeps them, and found again if they are there."""
    overwrite: bool = False
    """Replace results that are already there (not the fits)."""
    json: bool = False
    """Print JSON for machines instead of a table."""

    def run(self) -> None:
        from drogo.cli import shape

        shape.run(self)


@dataclass(frozen=True)
class Reproduce:
    """Run the paper's figures and tables again, beside its published numbers."""

    names: tyro.conf.Positional[tuple[str, ...]] = ()
    """Which: ring, cosine, eigenvectors, shaping, shaping-curves, formulations, environments,
    natural-gradient, ablation-tabular, ablation-network, theory. All unless given."""
    preset: Literal["fast", "paper"] = "fast"
    """fast: within the hour. paper: exactly the paper's settings, a day."""
    seeds: int | None = None
    """10 unless given (2 with --quick)."""
    quick: bool = False
    """A version of minutes, for a first look: short runs, two seeds."""
    engine: Literal["local", "ray"] = "local"
    """local: processes on this machine. ray: a Ray cluster (extra `ray`)."""
    address: str | None = None
    """Of a Ray cluster: `auto` is the one that this machine is part of."""
    workers: int = 0
    """Processes of the local engine; 0: one for each core."""
    out: Path = Path("results/reproduce")
    """Directory: finished runs are kept in it and never done twice."""
    json: bool = False
    """Print JSON for machines instead of a table."""

    def run(self) -> None:
        from drogo_paper import command as reproduce

        reproduce.run(self)


@dataclass(frozen=True)
class Report:
    """Make the page of a directory that `drogo reproduce` has filled."""

    directory: tyro.conf.Positional[Path]
    """What was given as --out."""
    json: bool = False
    """Print JSON for machines."""

    def run(self) -> None:
        from drogo_paper import command as reproduce

        reproduce.report_again(self)


Verb = (
    Annotated[Envs, tyro.conf.subcommand("envs")]
    | Annotated[Exact, tyro.conf.subcommand("exact")]
    | Annotated[Learn, tyro.conf.subcommand("learn")]
    | Annotated[Shape, tyro.conf.subcommand("shape")]
    | Annotated[Reproduce, tyro.conf.subcommand("reproduce")]
    | Annotated[Report, tyro.conf.subcommand("report")]
)


def _is_of_the_input(error: Exception) -> bool:
    gymnasium = sys.modules.get("gymnasium")  # imported by whatever may raise its errors
    kinds = (ValueError, OSError, ArithmeticError)
    return isinstance(error, kinds) or (
        gymnasium is not None and isinstance(error, gymnasium.error.Error)
    )


def main(arguments: list[str] | None = None) -> None:
    """The `drogo` command."""
    verb: Any = tyro.cli(
        Verb,  # pyright: ignore[reportArgumentType]
        prog="drogo",
        description="The default representation of an MDP: its principal eigenvector, exact and "
        "learned.",
        args=arguments,
        config=(tyro.conf.FlagCreatePairsOff,),
    )
    try:
        verb.run()
    except KeyboardInterrupt:
        print("drogo: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(141)
    except Exception as error:
        if not _is_of_the_input(error):
            raise
        # Wrong input, not a fault of the program: the message is the answer, a traceback is not.
        if getattr(verb, "json", False):
            print(json.dumps({"error": str(error), "kind": type(error).__name__}))
        print(f"drogo: {error}", file=sys.stderr)
        sys.exit(2)
