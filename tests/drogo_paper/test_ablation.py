"""The sentences about an ablation follow from its numbers."""

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


def test_objectives_no_better_than_a_constant_are_named():
    """A constant has 0.9020 in grid-task and more elsewhere, so 0.91 is better only there."""
    run = record({"cosine_transition": np.full((1, 5, 2), 0.91)})
    finals = ablation_answer.Finals({}, {("drogo", world): run for world in WORLDS})
    note = ablation_answer.constant_note(finals)
    assert "drogo in four-rooms, grid-maze, grid-room." in note
