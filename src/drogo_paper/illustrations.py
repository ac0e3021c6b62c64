"""Figures 1, 3, 4 and 6, which need no runs. The paper does not give the ring of figure 1; the
shipped map follows its description. Figure 6 shows the metric of log space: a plain gradient step
hardly changes v where e is small, and a natural one changes v equally everywhere."""

import numpy as np

from drogo.exact import log_column, solve
from drogo.plot import heatmap
from drogo.worlds.grid import GridWorld
from drogo_paper.agents import optimal_values
from drogo_paper.agents.shaping_experiment import successor_potential
from drogo_paper.plot.figures import OKABE_ITO, new_figure
from drogo_paper.scope import WORLDS, Answer, Get, Question, Scope, Table

RING_LAM = 1.3
"""The paper gives no lambda for this figure; this is the one of the earlier work."""


def climb(world: GridWorld, potential: np.ndarray) -> list[int]:
    """Returns the states of the steepest ascent from the start to the goal or a local maximum."""
    path = [int(world.start.argmax())]
    while not world.terminal[path[-1]]:
        following = world.next_state[path[-1]]
        best = int(following[potential[following].argmax()])
        if potential[best] <= potential[path[-1]]:
            break
        path.append(best)
    return path


def ring(scope: Scope, get: Get) -> Answer:
    world = GridWorld.load("ring")
    vectors = {
        "SR": (successor_potential(world.mdp), "minus the top eigenvector", "-e"),
        "DR": (
            log_column(world.mdp, RING_LAM),
            f"log of its vector (column, λ = {RING_LAM:g})",
            "log e",
        ),
    }
    figure = new_figure(11, 5)
    crossed, length = {}, {}
    panels = figure.subplots(1, 2)
    for axes, (name, (values, what, label)) in zip(panels, vectors.items(), strict=True):
        heatmap(world, values, title=f"{name}: {what}", label=label, axes=axes, numbers=False)
        path = climb(world, values)
        row, column = world.cells[path].T
        axes.plot(column, row, color="white", linewidth=3.5)
        axes.plot(column, row, color="black", linewidth=1.5)
        crossed[name] = int(world.low_reward[path].sum())
        length[name] = len(path) - 1
    figure.suptitle("black: the steepest way up from the start")
    return Answer(
        "SR and DR on a ring",
        "Figure 1",
        f"The steepest way up the SR's potential crosses {crossed['SR']} low-reward cells in "
        f"{length['SR']} steps; that of the DR crosses {crossed['DR']}, in {length['DR']} steps.",
        {"ring": figure},
        notes=["The paper does not print its ring's map; this one follows its description."],
        numbers={"low-reward cells crossed": crossed, "steps": length},
    )


LAMBDAS = (1.3, 5.0, 10.0, 20.0, 100.0)
SHOWN = "four-rooms"
FORMULATIONS = {"zero-row": "zero row (before)", "absorbing": "absorbing (the paper's)"}


def formulations(scope: Scope, get: Get) -> Answer:
    figure = new_figure(3.4 * len(LAMBDAS), 5.8)
    world = GridWorld.load(SHOWN)
    panels = figure.subplots(2, len(LAMBDAS))
    for row, (terminal, name) in zip(panels, FORMULATIONS.items(), strict=True):
        for axes, lam in zip(row, LAMBDAS, strict=True):
            solved = solve(world.mdp, lam, "representation", terminal=terminal)
            title = f"{name}, λ = {lam:g}"
            heatmap(world, solved.log_e, title=title, axes=axes, numbers=False)
            axes.title.set_fontsize(9)
            axes.set(xlabel="", ylabel="")
    rows, lost, zero = [], 0, 0
    for name in WORLDS:
        world = GridWorld.load(name)
        for terminal, title in FORMULATIONS.items():
            cells = []
            for lam in LAMBDAS:
                solved = solve(world.mdp, lam, "representation", terminal=terminal)
                at_goal = bool(world.terminal[int(np.argmax(solved.log_e))])
                lost += terminal == "absorbing" and not at_goal
                zero += terminal != "absorbing" and at_goal
                cells.append("goal" if at_goal else "elsewhere")
            rows.append([name, title, *cells])
    header = ["world", "terminal state", *(f"λ = {lam:g}" for lam in LAMBDAS)]
    kept = "in every world at every λ" if not lost else f"but not in {lost} of the cases"
    return Answer(
        "Two formulations of a terminal state",
        "Figure 3",
        f"With an absorbing terminal state the vector is largest at the goal {kept}; with a zero "
        f"row it is in {zero} of {len(rows) // 2 * len(LAMBDAS)} cases.",
        {"formulations": figure},
        [Table(header, rows, "Where the exact vector (`representation`) is largest.")],
    )


def environments(scope: Scope, get: Get) -> Answer:
    figure = new_figure(12, 3.6)
    rows = []
    for axes, name in zip(figure.subplots(1, len(WORLDS)), WORLDS, strict=True):
        world = GridWorld.load(name)
        start = int(world.start.argmax())
        axes.imshow(world.picture(start), interpolation="nearest")
        axes.set(title=name, xticks=[], yticks=[])
        height, width = world.shape
        best = optimal_values(world.mdp)[start]
        rows.append([name, f"{width} x {height}", str(world.n_states), str(world.low_reward.sum()),
                     str(world.step_limit), f"{best:g}"])  # fmt: skip
    figure.supxlabel("blue: start, green: goal (0), orange: low reward (-20), white: -1")
    header = ["world", "cells", "states", "low-reward cells", "step limit", "best return"]
    return Answer(
        "The worlds",
        "Figure 4",
        "All four worlds are shipped as text maps.",
        {"environments": figure},
        [Table(header, rows)],
    )


POINTS = (-3.0, -1.5, 0.0)
STEP = 0.25
"""Length of a step in v; a natural step has the same length everywhere."""


def natural_gradient(scope: Scope, get: Get) -> Answer:
    figure = new_figure(10, 4)
    left, right = figure.subplots(1, 2)
    v = np.linspace(-4, 0.5, 200)
    left.plot(v, np.exp(v), color="black", linewidth=1.5)
    for point, colour in zip(POINTS, (OKABE_ITO[1], OKABE_ITO[3], OKABE_ITO[6]), strict=True):
        target = point + STEP
        left.plot([point, target], [0, 0], color=colour, linewidth=6, solid_capstyle="butt")
        left.plot(
            [-4, -4], np.exp([point, target]), color=colour, linewidth=6, solid_capstyle="butt"
        )
        for x in (point, target):
            left.plot([x, x, -4], [0, np.exp(x), np.exp(x)], color=colour, linewidth=0.6)
    left.set(xlabel="v = log e", ylabel="e")
    left.set_title(f"the same step in v ({STEP:g}) is a tiny one in e where e is small", fontsize=9)
    depth = np.arange(0, 41)
    right.semilogy(depth, np.exp(-2.0 * depth), color=OKABE_ITO[1], label="plain gradient: e²")
    right.semilogy(depth, np.ones_like(depth, dtype=float), "--", color=OKABE_ITO[6],
                   label="natural gradient: 1")  # fmt: skip
    right.set_xlabel("-v: how far down the vector is (grid-maze: 39)")
    right.set_ylabel("size of a step in v, relative")
    right.set_title("what a gradient step does to v", fontsize=9)
    right.grid(alpha=0.3)
    right.legend(frameon=False)
    return Answer(
        "The metric of log space",
        "Figure 6, proposition 3.5",
        "The metric of v-space is diag(e²): at the far end of grid-maze a plain gradient step is "
        f"{np.exp(-2 * 39.0):.0e} of a natural one.",
        {"natural-gradient": figure},
    )


QUESTIONS = {
    "ring": Question(ring),
    "formulations": Question(formulations),
    "environments": Question(environments),
    "natural-gradient": Question(natural_gradient),
}
