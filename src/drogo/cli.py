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
        from drogo.commands import envs

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
        from drogo.commands import exact

        exact.run(self)


@dataclass(frozen=True)
class Learn:
    """Learn it from transitions, compare with the truth, draw it."""

    env: tyro.conf.Positional[str]
    """A shipped world, a map file, or a Gymnasium id."""
    observation: Literal["one-hot", "coordinates", "pixels", "state"] = "coordinates"
    """What the network sees of a grid world; state is the tabular case."""
    preset: Literal["fast", "paper"] = "fast"
    """fast: minutes instead of hours. paper: exactly the paper's settings."""
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
    out: Path = Path("results/learn")
    """Directory; each run gets one of its own in it, named by its settings."""
    resume: bool = False
    """Go on with an interrupted run."""
    overwrite: bool = False
    """Start anew even if there is a result or an interrupted run."""
    json: bool = False
    """Print JSON for machines instead of a table."""

    def run(self) -> None:
        from drogo.commands import learn

        learn.run(self)


Verb = (
    Annotated[Envs, tyro.conf.subcommand("envs")]
    | Annotated[Exact, tyro.conf.subcommand("exact")]
    | Annotated[Learn, tyro.conf.subcommand("learn")]
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
    except (ValueError, OSError, ArithmeticError) as error:
        # Wrong input, not a fault of the program: the message is the answer, a traceback is not.
        if getattr(verb, "json", False):
            print(json.dumps({"error": str(error), "kind": type(error).__name__}))
        print(f"drogo: {error}", file=sys.stderr)
        sys.exit(2)
