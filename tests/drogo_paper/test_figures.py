"""Figures of the experiments and of the report are complete: nothing is cut off."""

import numpy as np
import pytest

from drogo import GridWorld
from drogo_paper import illustrations, reproduce
from drogo_paper.plot.figures import paths, returns
from drogo_paper.scope import Scope


def has_room(figure):
    """Lays out a figure, and returns whether nothing is beyond its edge, in inches."""
    figure.get_layout_engine().execute(figure)
    box = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    return min(box.x0, box.y0, width - box.x1, height - box.y1) >= -0.01


@pytest.mark.parametrize("name", ["ring", "environments", "natural-gradient", "formulations"])
def test_figures_of_the_report(name, monkeypatch):
    monkeypatch.setattr(illustrations, "LAMBDAS", illustrations.LAMBDAS[-2:])
    (figure,) = reproduce.find(name).answer(Scope(), lambda job: None).figures.values()
    assert has_room(figure)


@pytest.mark.parametrize("methods", [1, 5, 9])
def test_figures_of_agents(methods):
    world = GridWorld.load("grid-task")
    seeds = np.random.default_rng(0).normal(size=(3, 20)) - 20
    names = [f"method {k}" for k in range(methods)]
    assert has_room(returns(dict.fromkeys(names[:5], seeds), 100, -17.0, title="returns"))
    goal, start = int(world.terminal.argmax()), int(world.start.argmax())
    walked = {name: [np.array([start, goal]), np.array([start])] for name in names}
    figure = paths(world, walked, title="paths")
    assert has_room(figure)
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title() for axes in shown] == [f"{name}: 1 of 2 arrive" for name in names]
    assert len(figure.axes) - len(shown) <= 2
