"""The sentences about an ablation follow from its numbers."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from drogo.engines.store import Record
from drogo.worlds.grid import GridWorld
from drogo_paper import ablation, ablation_answer
from drogo_paper.ablation import INTENDED
from drogo_paper.scope import WORLDS, Scope


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
def test_the_note_on_the_intended_form(gdo, intended, words):
    scope, kind = Scope("fast", 2), ablation.TABULAR
    states = GridWorld.load(ablation.SEARCHED).n_states
    facts = {"grid": ["step_size", "penalty"], "points": [[1.0, 2.0]]}
    searched = record({"v": np.zeros((1, 2, states))}, facts)
    lowest = {"gdo": gdo, INTENDED: intended}
    note = ablation_answer.gdo_note(scope, lambda job: searched, kind, lowest)
    assert words in note
    assert "(step_size 1, penalty 2)" in note
    quick = Scope("fast", 2, quick=True)
    assert not ablation_answer.gdo_note(quick, lambda job: searched, kind, lowest)


def test_a_search_that_has_not_left_its_start():
    """The log of a constant vector has a cosine of 0.913 with the truth in grid-room."""

    def get(job, others=0.9131):
        score = 0.998 if job.settings["objective"] == "drogo" else others
        return record({"cosine_transition": np.full((1, 1, 2), score)})

    note = ablation_answer.start_note(Scope("fast", 2), get, ablation.TABULAR)
    assert "0.913 with `transition` in grid-room" in note
    assert "gdo and gdo_intended and log_gdo and natural_gdo are those that stay there" in note
    better = partial(get, others=0.998)
    assert ablation_answer.start_note(Scope("fast", 2), better, ablation.TABULAR) == ""


def finals(cosines):
    """Runs of two seeds in every world, with these mean cosines at five logged updates."""
    curves = np.repeat(np.array(cosines)[:, None], 2, axis=1)
    run = record({"cosine_transition": curves[None]})
    return ablation_answer.Finals({}, {("drogo", world): run for world in WORLDS})


def test_objectives_no_better_than_a_constant_and_runs_that_still_change_are_named():
    """A constant has 0.9020 in grid-task and more elsewhere, so 0.91 is better only there."""
    note = ablation_answer.constant_note(finals([0.5, 0.91, 0.91, 0.91, 0.91]))
    assert "0.902 to 0.924" in note
    assert "drogo in four-rooms, grid-maze, grid-room." in note
    assert ablation_answer.constant_note(finals([0.5, 0.99, 0.99, 0.99, 0.99])) == ""
    note = ablation_answer.change_note(finals([0.5, 0.6, 0.7, 0.8, 0.9]))
    assert "drogo in grid-task (+0.100)" in note
    assert ablation_answer.change_note(finals([0.5, 0.9, 0.9, 0.9, 0.9])) == ""
