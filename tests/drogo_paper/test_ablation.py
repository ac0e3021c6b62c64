"""The sentences about an ablation follow from its numbers."""

from pathlib import Path

import numpy as np
import pytest

from drogo.exact import solve
from drogo.runs.store import Record
from drogo.worlds.grid import GridWorld
from drogo_paper import ablation, ablation_answer, ablation_gdo
from drogo_paper.ablation import INTENDED
from drogo_paper.scope import LAM, WORLDS, Scope


def record(arrays, facts=None):
    return Record(arrays, facts or {}, status={}, path=Path())


@pytest.mark.parametrize(
    ("gdo", "intended", "words"),
    [
        (0.9, 0.995, "holds for the objective that it derives, and not for the sample"),
        (0.9, 0.95, "neither form of gdo reaches the truth"),
        (0.995, 0.995, "in its worst world, and gdo at 0.995."),
    ],
)
def test_what_the_intended_form_shows(gdo, intended, words):
    scope, kind = Scope("fast", 2), ablation.TABULAR
    states = GridWorld.load(ablation.SEARCHED).n_states
    searched = record(
        {"v": np.zeros((1, 2, states))}, {"grid": ["step_size", "penalty"], "points": [[1.0, 2.0]]}
    )
    lowest = {"gdo": gdo, INTENDED: intended}
    (note,) = ablation_gdo.notes(scope, lambda job: searched, kind, lowest, 0.99)
    assert words in note
    assert "(step_size 1, penalty 2)" in note
    assert not ablation_gdo.notes(Scope("fast", 2, quick=True), lambda job: searched, kind, {}, 1)


def test_errors_of_logs_by_depth():
    """Wrong by 0.25 where e is large, by 2 where it is small, and by 3 in one entry between."""
    truth = solve(GridWorld.load("grid-maze").mdp, LAM, "transition").checked().log_e
    wrong = np.where(truth > truth.min() / 3, 0.25, 2.0)
    wrong[np.argsort(truth)[truth.size // 2]] = 3.0
    text = ablation_gdo.precision("grid-maze", record({"v": (truth + wrong)[None, None]}))
    assert "e goes down to e^-49" in text
    assert "e^-184, the smaller entries could not be held" in text
    assert "0.25 above e^-16 and 2 below e^-33, and the largest is 3." in text


def test_a_search_that_has_not_left_its_start():
    """The log of a constant vector has a cosine of 0.913 with the truth in grid-room."""
    scores = {"gdo": 0.9131, "drogo": 0.998}
    found = {
        name: record({"cosine_transition": np.full((1, 1, 2), score)})
        for name, score in scores.items()
    }

    def get(job):
        return found["drogo" if job.settings["objective"] == "drogo" else "gdo"]

    note = ablation_answer._start_note(Scope("fast", 2), get, ablation.TABULAR)
    assert "0.913 with `transition` in grid-room" in note
    assert "gdo and gdo_intended and log_gdo and natural_gdo are those that stay there" in note
    found["gdo"] = found["drogo"]
    assert ablation_answer._start_note(Scope("fast", 2), get, ablation.TABULAR) == ""


def finals(cosines):
    """Runs of two seeds in every world, with these mean cosines at five logged updates."""
    curves = np.repeat(np.array(cosines)[:, None], 2, axis=1)
    run = record({"cosine_transition": curves[None]})
    return ablation_answer.Finals({}, {("drogo", world): run for world in WORLDS})


def test_what_is_no_better_than_a_constant_is_named():
    """A constant has 0.9020 in grid-task and more elsewhere, so 0.91 is better only there."""
    note = ablation_answer._constant_note(finals([0.5, 0.91, 0.91, 0.91, 0.91]))
    assert "0.902 to 0.924" in note
    assert "drogo in four-rooms, grid-maze, grid-room." in note
    assert ablation_answer._constant_note(finals([0.5, 0.99, 0.99, 0.99, 0.99])) == ""


def test_what_has_not_settled_is_named():
    note = ablation_answer._change_note(finals([0.5, 0.6, 0.7, 0.8, 0.9]))
    assert "drogo in grid-task (+0.100)" in note
    assert ablation_answer._change_note(finals([0.5, 0.9, 0.9, 0.9, 0.9])) == ""


def test_short_runs_neither_confirm_nor_refute():
    scope = Scope("fast", 2)
    assert "neither confirms nor refutes" in ablation_answer._claim(scope, ablation.NETWORK_PAPER)
    assert ablation_answer._claim(scope, ablation.TABULAR) == ablation.TABULAR.claim


def test_signs_are_counted_over_the_search():
    searched = record({"wrong_sign": np.array([[0, 0], [3, 5]]), "v": np.zeros((2, 2, 9))})
    (note,) = ablation_gdo.signs(Scope("fast", 2), lambda job: searched, ablation.NETWORK)
    assert "gdo at 1 of 2 points, with the other sign in up to 5 of 9 entries" in note
    assert ablation_gdo.signs(Scope("fast", 2), lambda job: searched, ablation.TABULAR) == []
