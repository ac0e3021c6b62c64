"""The answers of the ablations, with explanations of the results of `gdo`."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from matplotlib.figure import Figure

from drogo.errors import counted
from drogo.exact import solve
from drogo.worlds.grid import GridWorld
from drogo_paper import ablation
from drogo_paper.ablation import INTENDED, SEARCHED, Ablation, point, search_job
from drogo_paper.engines.store import Record
from drogo_paper.plot.figures import LINES, OKABE_ITO, draw_seeds, legend_below, new_figure
from drogo_paper.protocol import PROTOCOLS
from drogo_paper.recipes import DELTA
from drogo_paper.scope import LAM, WORLDS, Answer, Get, Missing, Question, Scope, Table, needed

COLOURS = {
    "gdo": OKABE_ITO[1],
    INTENDED: OKABE_ITO[5],
    "log_gdo": OKABE_ITO[4],
    "natural_gdo": OKABE_ITO[3],
    "drogo": OKABE_ITO[6],
}
REACHED = 0.99
"""The cosine that counts as reached: the exact `column` itself has 0.991 in four-rooms."""
UNMOVED = 0.002
"""A search whose best score is as close as this to that of its start has not left it."""
LOWEST_SHOWN = 0.55
"""Lower cosines are shown only where a curve ends there."""
UNSETTLED = 0.005
"""A run whose mean cosine changes by more in its last quarter has not converged."""
HEADER = ["world", "objective", "mean cosine", "smallest", "mean, column", "diverged",
          "wrong signs", "setting"]  # fmt: skip
DEEPEST = "grid-maze"
"""The world with the smallest entries."""
SMALL_LAM = 1.3
"""The lambda of the earlier work, whose vectors are deeper."""
WRONG_SIGNS = (
    "Wrong signs: how many entries of e have another sign than its largest one, on average over "
    "seeds, where an objective learns e itself."
)


@dataclass(frozen=True)
class Finals:
    """The settings that the searches chose, and the runs with them by objective and world."""

    truth: str
    """The eigenvector of the cosines."""
    setting: dict[str, dict[str, float]]
    record: dict[tuple[str, str], Record]

    def last(self, objective: str, world: str) -> np.ndarray:
        return self.curves(objective, world)[-1]

    def curves(self, objective: str, world: str) -> np.ndarray:
        """Returns the cosines along the way, a column for each seed, with 0 if they are NaN."""
        cosines = self.record[objective, world].arrays[f"cosine_{self.truth}"][0]
        return np.where(np.isfinite(cosines), cosines, 0.0)

    def lowest(self, objective: str) -> float:
        """Returns the mean cosine in the objective's worst world."""
        return min(float(self.last(objective, world).mean()) for world in WORLDS)


def ablation_answer(scope: Scope, get: Get, kind: Ablation) -> Answer:
    finals = _finals(scope, get, kind)
    lowest = {name: finals.lowest(name) for name in finals.setting}
    rows = []
    for world in WORLDS:
        rows += [_row(finals, name, world) for name in finals.setting]
        rows.append([world, "a constant", f"{_constant(world, finals.truth):.4f}", *"-----"])
    notes = [_settings_note(scope, kind), start_note(scope, get, kind), constant_note(finals)]
    notes += [change_note(finals), signs_note(scope, get, kind)]
    notes.append(gdo_note(scope, get, kind, lowest))
    if kind.is_table and INTENDED in finals.setting:
        notes.append(_precision_note(finals.record[INTENDED, DEEPEST]))
    return Answer(
        kind.title,
        kind.source,
        _verdict(scope, kind, lowest),
        {kind.name: _figure(finals, kind)},
        [Table(HEADER, rows, WRONG_SIGNS)],
        notes=[note for note in notes if note],
        numbers=lowest,
    )


def _verdict(scope: Scope, kind: Ablation, lowest: Mapping[str, float]) -> str:
    worst = "; ".join(f"{name} {value:.3f}" for name, value in lowest.items())
    if scope.quick:
        return (
            f"{kind.updates_in(scope, False):,} updates are too few for a verdict. Mean cosine "
            f"with `{scope.reading.truth}` in each objective's worst world: {worst}."
        )
    reached = [name for name, value in lowest.items() if value >= REACHED]
    listed = (
        f"{', '.join(reached[:-1])} and {reached[-1]} reach"
        if len(reached) > 1
        else (f"Only {reached[0]} reaches" if reached else "None of them reaches")
    )
    return (
        f"{listed} a mean cosine of {REACHED} with `{scope.reading.truth}` in every world (in each "
        f"objective's worst world: {worst}). {claim_of(scope, kind)}"
    )


def claim_of(scope: Scope, kind: Ablation) -> str:
    """Returns the paper's claim, and whether these runs are long enough for a comparison."""
    updates, whole = (
        kind.updates_in(scope, False),
        PROTOCOLS["text"].overrides(SEARCHED)["updates"],
    )
    if kind.settings != "paper" or updates >= whole:
        return kind.claim
    return (
        f"{kind.claim} But these runs have {updates:,} updates and not {whole:,}, so this neither "
        "confirms nor refutes it."
    )


def _constant(world: str, name: str) -> float:
    truth = solve(GridWorld.load(world).mdp, LAM, name).checked().log_e
    return float(-truth.sum() / np.linalg.norm(truth) / np.sqrt(truth.size))


def constant_note(finals: Finals) -> str:
    """Lists the objectives that end no closer to the truth than a constant vector."""
    constant = {world: _constant(world, finals.truth) for world in WORLDS}
    no_better: dict[str, list[str]] = {}
    for objective, world in finals.record:
        if finals.last(objective, world).mean() <= constant[world] + UNMOVED:
            no_better.setdefault(objective, []).append(world)
    if not no_better:
        return ""
    listed = "; ".join(
        f"{name} in {'all worlds' if len(worlds) == len(WORLDS) else ', '.join(worlds)}"
        for name, worlds in no_better.items()
    )
    return (
        f"The cosine of logs is a lax measure: a constant vector has {min(constant.values()):.3f} "
        f"to {max(constant.values()):.3f}. Those that end no better: {listed}."
    )


def change_note(finals: Finals) -> str:
    """Lists the runs that still changed at the end."""
    moving = []
    for objective, world in finals.record:
        mean = finals.curves(objective, world).mean(axis=1)
        change = mean[-1] - mean[-1 - len(mean) // 4]
        if abs(change) > UNSETTLED:
            moving.append(f"{objective} in {world} ({change:+.3f})")
    if not moving:
        return ""
    return f"Still changing over the last quarter of the updates: {', '.join(moving)}."


def _finals(scope: Scope, get: Get, kind: Ablation) -> Finals:
    finals = Finals(scope.reading.truth, {}, {})
    for objective in kind.objectives_in(scope):
        best = ablation.best_setting(scope, kind, objective, get)
        if best is None:
            raise Missing(f"The search for {objective} has not been run.")
        finals.setting[objective] = best
        for world in WORLDS:
            job = ablation.final_job(scope, kind, world, objective, best)
            finals.record[objective, world] = needed(get, job)
    return finals


def _row(finals: Finals, objective: str, world: str) -> list[str]:
    record, last = finals.record[objective, world], finals.last(objective, world)
    column = record.arrays["cosine_column"][0][-1]
    setting = ", ".join(f"{name} {value:g}" for name, value in finals.setting[objective].items())
    wrong = f"{record.arrays['wrong_sign'][0].mean():.1f}"
    return [
        world,
        objective,
        f"{last.mean():.4f}",
        f"{last.min():.4f}",
        f"{column.mean():.4f}",
        str(int(record.arrays["diverged"].sum())),
        wrong if objective in ("gdo", INTENDED) else "-",
        setting or "the paper's",
    ]


def _figure(finals: Finals, kind: Ablation) -> Figure:
    figure = new_figure(11, 6.4)
    for axes, world in zip(figure.subplots(2, 2).ravel(), WORLDS, strict=False):
        for k, objective in enumerate(finals.setting):
            arrays, line = finals.record[objective, world].arrays, LINES[k % len(LINES)]
            curves, colour = finals.curves(objective, world).T, COLOURS[objective]
            draw_seeds(axes, arrays["update"], curves, line, color=colour, label=objective)
        means = [line.get_ydata() for line in axes.lines if line.get_label() in finals.setting]
        # Without the first updates, whose low cosines would squeeze the rest.
        floor = min(float(np.min(mean[len(mean) // 10 :])) for mean in map(np.asarray, means))
        last = min(float(mean[-1]) for mean in map(np.asarray, means))
        axes.set(title=world, xlabel="updates", ylabel=f"cosine with the exact {finals.truth}")
        axes.set_ylim(min(max(LOWEST_SHOWN, floor), last) - 0.05, 1.02)
        axes.grid(alpha=0.3)
    legend_below(figure, figure.axes[0])
    return figure


def _settings_note(scope: Scope, kind: Ablation) -> str:
    """Describes the settings, and the best possible numbers."""
    updates, searching = (kind.updates_in(scope, part) for part in (False, True))
    seeds, few = (kind.seeds(scope, part) for part in (False, True))
    method = "Adam, Fourier features"
    if kind.settings == "paper":
        method = "RMSprop, global norm of the gradient clipped at 0.5, no Fourier features"
    sizes = f"{min(kind.step_sizes(scope)):g} to {max(kind.step_sizes(scope)):g}"
    short = " A shorter search prefers what is best early." if searching < updates else ""
    return (
        "No vector but `transition` itself can reach 1: the exact `column` has a cosine of 0.991 "
        f"to 1 with it, so drogo's best is that. Settings: {method}; step sizes from {sizes} were "
        f"searched in {SEARCHED} for {searching:,} updates with {counted(few, 'seed')}, and the "
        f"chosen ones ran for {updates:,} updates with {seeds} seeds.{short}"
    )


def start_note(scope: Scope, get: Get, kind: Ablation) -> str:
    """Lists the searches whose best setting leaves the start unchanged."""
    if not kind.is_table or kind.descends(scope):
        return ""
    constant, truth = _constant(SEARCHED, scope.reading.truth), scope.reading.truth
    best = {
        name: float(ablation.scores(needed(get, search_job(scope, kind, name)), truth).max())
        for name in kind.objectives_in(scope)
    }
    unmoved = [name for name, score in best.items() if abs(score - constant) < UNMOVED]
    if not unmoved:
        return ""
    return (
        f"A table starts with a constant, whose log has a cosine of {constant:.3f} with `{truth}` "
        f"in {SEARCHED}. The best points of the searches for {' and '.join(unmoved)} stay there."
    )


def gdo_note(scope: Scope, get: Get, kind: Ablation, lowest: Mapping[str, float]) -> str:
    """Explains why the printed `gdo` does not reach the vector: its samples have another matrix."""
    if "gdo" not in kind.objectives or scope.quick or kind.descends(scope):
        return ""
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
        f"{SEARCHED} their smallest eigenvectors have a cosine of {float(text @ sampled):.2f}. The "
        f"closest point of gdo's search ({chosen}) has {score[best]:.3f} with its own and "
        f"{float((u[best] @ text).mean()):.2f} with the paper's."
    )
    return f"{note} {_about_intended(lowest)}".strip()


def signs_note(scope: Scope, get: Get, kind: Ablation) -> str:
    """Counts the points of the search where a network that learns e has entries of both signs."""
    if kind.is_table:
        return ""
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
    return f"In the search, e has entries of both signs: {'; '.join(parts)}.{paper}"


def _about_intended(lowest: Mapping[str, float]) -> str:
    if INTENDED not in lowest:
        return ""
    text = (
        f"{INTENDED} differs in its sample alone, (1 + exp(-r/λ)) u(s)² - u(s) u(s'), whose mean "
        f"is u'(I + R - P~)u for every P. It ends at a mean cosine of {lowest[INTENDED]:.3f} in "
        f"its worst world, and gdo at {lowest['gdo']:.3f}."
    )
    if lowest[INTENDED] >= REACHED > lowest["gdo"]:
        return (
            f"{text} So the paper's claim about gdo holds for the objective that it derives, and "
            "not for the sample that it prints."
        )
    if lowest[INTENDED] < REACHED:
        return f"{text} So neither form of gdo reaches the truth here."
    return text


def smallest_eigenvectors(world: GridWorld) -> tuple[np.ndarray, np.ndarray]:
    """Those of R - P~ and of the matrix of samples of `gdo`, with absorbing terminal states."""
    P, terminal = world.mdp.P.toarray(), world.terminal
    P[terminal, terminal] = 1.0
    R = np.diag(np.exp(-np.where(terminal, -DELTA, world.mdp.reward) / LAM))
    symmetric = R - (P + P.T) / 2
    sampled = symmetric + np.diag(P.sum(axis=0) - 1) / 2
    text, of_samples = (np.abs(np.linalg.eigh(matrix)[1][:, 0]) for matrix in (symmetric, sampled))
    return text, of_samples


def _precision_note(record: Record) -> str:
    """Describes the errors of small entries of e in single precision, in the deepest world."""
    world = GridWorld.load(DEEPEST)
    truth = solve(world.mdp, LAM, "transition").checked().log_e
    smallest = float(np.log(np.finfo(np.float32).tiny))
    deepest = solve(world.mdp, SMALL_LAM, "transition").checked().log_e.min()
    error = np.abs(record.arrays["v"][0] - truth)
    third = truth.min() / 3
    near, far = (np.median(error[:, part]) for part in (truth > third, truth < 2 * third))
    return (
        f"{INTENDED} learns e itself, in single precision, which holds numbers down to "
        f"e^{smallest:.0f}. In {DEEPEST} e goes down to e^{truth.min():.0f}; at λ = {SMALL_LAM:g}, "
        f"where it falls to e^{deepest:.0f}, the smaller entries could not be held. The median "
        f"error of the log in {DEEPEST} is {near:.2g} above e^{third:.0f} and {far:.2g} below "
        f"e^{2 * third:.0f}, and the largest is {error.max():.2g}."
    )


def question(kind: Ablation) -> Question:
    return Question(partial(ablation_answer, kind=kind), partial(ablation.ablation_jobs, kind=kind))


QUESTIONS = {
    kind.name: question(kind)
    for kind in (ablation.TABULAR, ablation.NETWORK, ablation.NETWORK_PAPER)
}
