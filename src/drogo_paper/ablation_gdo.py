"""Explanations of the results of `gdo`: the matrix of its samples, and its small entries."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from drogo.engines.store import Record
from drogo.exact import solve
from drogo.worlds.grid import GridWorld
from drogo_paper.ablation import INTENDED, SEARCHED, TRUTH, Ablation, point, search_job
from drogo_paper.recipes import DELTA
from drogo_paper.scope import LAM, Get, Scope, needed


def notes(
    scope: Scope, get: Get, kind: Ablation, lowest: Mapping[str, float], reached: float
) -> list[str]:
    """Explains why the printed `gdo` does not reach the vector: its samples have another matrix.

    Args:
        scope: The size of the runs.
        get: Reads runs.
        kind: The ablation.
        lowest: The mean cosine of each objective in its worst world.
        reached: The cosine that counts as reached.
    """
    if "gdo" not in kind.objectives or scope.quick:
        return []
    record = needed(get, search_job(scope, kind, "gdo"))
    text, sampled = smallest_eigenvectors(GridWorld.load(SEARCHED))
    v = record.arrays["v"]
    u = np.exp(v - v.max(axis=-1, keepdims=True))
    u /= np.linalg.norm(u, axis=-1, keepdims=True)
    score = (u @ sampled).mean(axis=1)
    best = int(np.nanargmax(score))
    chosen = ", ".join(f"{name} {value:g}" for name, value in point(record, best).items())
    note = (
        "What gdo minimises, sampled from forward transitions, is u'(R - P~ + ½ diag(P'1 - 1))u "
        "(proposition 3.2, corrected). With an absorbing terminal state that is not R - P~: in "
        f"{SEARCHED} their smallest eigenvectors have a cosine of {float(text @ sampled):.2f} (of "
        "the vectors, not their logs). The point of gdo's search that comes closest to its own "
        f"({chosen}) has {score[best]:.3f} with it and {float((u[best] @ text).mean()):.2f} with "
        "the paper's."
    )
    return [f"{note} {_intended(lowest, reached)}".strip()]


def signs(scope: Scope, get: Get, kind: Ablation) -> list[str]:
    """Counts the points of the search where a network that learns e has entries of both signs."""
    if kind.is_table:
        return []
    parts = []
    for name in ("gdo", INTENDED):
        if name in kind.objectives:
            record = needed(get, search_job(scope, kind, name))
            wrong = record.arrays["wrong_sign"].max(axis=1)
            states = record.arrays["v"].shape[-1]
            parts.append(
                f"{name} at {(wrong > 0).sum()} of {wrong.size} points, with the other sign in up "
                f"to {wrong.max()} of {states} entries"
            )
    paper = scope.against_paper(" The paper reports negative values too.")
    return [f"In the search, e has entries of both signs: {'; '.join(parts)}.{paper}"]


def _intended(lowest: Mapping[str, float], reached: float) -> str:
    """Describes the result of the objective with the intended mean."""
    if INTENDED not in lowest:
        return ""
    text = (
        f"{INTENDED} differs from gdo in its sample alone: (1 + exp(-r/λ)) u(s)² - u(s) u(s'), "
        "whose mean is u'(I + R - P~)u for every P. With the same search it ends at a mean cosine "
        f"of {lowest[INTENDED]:.3f} in its worst world, and gdo at {lowest['gdo']:.3f}."
    )
    if lowest[INTENDED] >= reached > lowest["gdo"]:
        return (
            f"{text} So the paper's claim about gdo holds for the objective that it derives, and "
            "not for the sample that it prints; neither the search nor the step sizes are the "
            "reason."
        )
    if lowest[INTENDED] < reached:
        return f"{text} So neither form of gdo reaches the truth here."
    return text


def smallest_eigenvectors(world: GridWorld) -> tuple[np.ndarray, np.ndarray]:
    """Those of R - P~ and of the matrix that samples of `gdo` describe, with absorbing terminal
    states. They are accurate in norm, which is enough for a cosine of the vectors themselves."""
    P, terminal = world.mdp.P.toarray(), world.terminal
    P[terminal, terminal] = 1.0
    R = np.diag(np.exp(-np.where(terminal, -DELTA, world.mdp.reward) / LAM))
    symmetric = R - (P + P.T) / 2
    sampled = symmetric + np.diag(P.sum(axis=0) - 1) / 2
    text, own = (np.abs(np.linalg.eigh(matrix)[1][:, 0]) for matrix in (symmetric, sampled))
    return text, own


SMALL_LAM = 1.3
"""The lambda of the earlier work, whose vectors are deeper."""


def precision(name: str, record: Record) -> str:
    """Describes the errors of small entries if e is learned in single precision, in a run of
    `gdo_intended` in a world."""
    world = GridWorld.load(name)
    truth = solve(world.mdp, LAM, TRUTH).checked().log_e
    smallest = float(np.log(np.finfo(np.float32).tiny))
    deepest = solve(world.mdp, SMALL_LAM, TRUTH).checked().log_e.min()
    error = np.abs(record.arrays["v"][0] - truth)
    third = truth.min() / 3
    near, far = (np.median(error[:, part]) for part in (truth > third, truth < 2 * third))
    return (
        f"{INTENDED} learns e itself, in single precision. In {name} e goes down to "
        f"e^{truth.min():.0f}. Single precision holds numbers down to e^{smallest:.0f} with the "
        f"same relative error, 6e-8, so that the logs of small entries can be as exact as those of "
        f"large ones; at λ = {SMALL_LAM:g}, where e goes down to e^{deepest:.0f}, the smaller "
        f"entries could not be held at all. Here, the median error of the log in {name} is "
        f"{near:.2g} above e^{third:.0f} and {far:.2g} below e^{2 * third:.0f}, and the largest is "
        f"{error.max():.2g}."
    )
