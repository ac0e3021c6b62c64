"""Figures are complete: nothing is cut off, and values that are not finite do no harm."""

from functools import partial

import numpy as np
import pytest
from matplotlib.collections import LineCollection

from drogo import Column, GridWorld, exact, plot, solve
from drogo.plot.maps import over_scenes
from drogo.plot.panels import Panel, draw_cloud, draw_image, of_fit, side_by_side
from drogo.worlds.scenes import Mark, Scene
from small_data import ROOM, assert_nothing_is_cut_off, data_of

TINY = GridWorld.parse("#####\n#S.G#\n#####")
RNG = np.random.default_rng(0)
HISTORY = {
    "update": np.array([0, 1500, 3000]),
    "cosine_column": 1 - np.array([[0.5, 0.4], [1e-2, 2e-2], [0.0, 1e-4]]),
    "worst": np.array([[9.0, 8.0], [0.1, np.inf], [0.0, 1e-3]]),
}


@pytest.mark.parametrize("name", ["four-rooms", "grid-room", "grid-maze-large", "tiny"])
def test_heatmap(name):
    world = TINY if name == "tiny" else GridWorld.load(name)
    values = exact.log_column(world.mdp, 20.0)
    figure = plot.heatmap(world, values, title=name, label="log of the DR column")
    assert_nothing_is_cut_off(figure)
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert (texts.count("S"), texts.count("G")) == (world.has_start, world.terminal.sum())
    assert len(texts) == 2 + (max(world.shape) <= 22) * world.n_states


def test_letters_of_terminal_states():
    world = GridWorld.parse("goal L: -60\n\n######\n#S.LG#\n######")
    v = exact.log_column(world.mdp, 20.0)
    for figure in (plot.heatmap(world, v, numbers=False), plot.goal_maps(world, {"a": v, "b": v})):
        assert_nothing_is_cut_off(figure)
        assert [(text.get_text(), text.get_color()) for text in figure.axes[0].texts] == [
            ("S", "black"), ("L", "white"), ("G", "black")]  # fmt: skip


def test_low_reward_areas_are_framed_and_what_is_not_finite_hides_nothing():
    world = GridWorld.parse("######\n#Sxx.#\n#..xG#\n######")
    figure, same = (plot.heatmap(world, np.zeros(world.n_states)) for _ in range(2))
    assert plot.as_png(figure, 50) == plot.as_png(same, 50)
    white, orange = (c for c in figure.axes[0].collections if isinstance(c, LineCollection))
    corners = {tuple(map(tuple, line.tolist())) for line in orange.get_segments()}
    assert len(corners) == len(orange.get_segments()) == len(white.get_segments()) == 8
    assert ((2.5, 0.5), (2.5, 1.5)) not in corners  # Both sides of it are low-reward cells.
    truth, v = np.array([-np.inf, -2.0, 0.0]), np.array([[-9.0, -3.0, 0.0]])
    figure = plot.learned(TINY, truth, v, HISTORY, title="")
    assert [figure.axes[k].images[1].get_clim() for k in (0, 2)] == [(-9, 0), (-1, 1)]


@pytest.mark.parametrize(
    ("values", "written"),
    [
        ([-1.5, -0.25, 0.0], ["-1.5", "-0.2", "0.0"]),
        ([-0.5, -0.25, 0.0], ["-0.50", "-0.25", "0.00"]),
        ([-2e-4, -1e-4, 0.0], ["-2e-04", "-1e-04", "0e+00"]),
        ([-250.0, -100.0, 0.0], ["-250", "-100", "0"]),
        ([-3e6, -1e6, 0.0], ["-3e+06", "-1e+06", "0e+00"]),
        ([2.0, 2.0, 2.0], ["2.0", "2.0", "2.0"]),
        ([-np.inf, -1.0, 0.0], ["-inf", "-1.0", "0.0"]),
        ([-np.inf, -np.inf, -np.inf], ["-inf"] * 3),
    ],
)
def test_values_of_cells(values, written):
    figure = plot.heatmap(TINY, np.array(values))
    assert plot.as_png(figure, 50).startswith(b"\x89PNG")
    assert [text.get_text() for text in figure.axes[0].texts[:3]] == written


@pytest.mark.slow
def test_figures_of_a_fit():
    world = GridWorld.parse("######\n#S..G#\n#.x..#\n######")
    truth = exact.log_column(world.mdp, 20.0)
    v = truth + RNG.normal(size=(2, world.n_states))
    figures = [plot.learned(world, t, v, HISTORY, title="grid world") for t in (truth, None)]
    field = RNG.normal(size=(9, 9))
    field[3] = np.nan
    draw = partial(draw_image, extent=(-0.5, 8.5, 8.5, -0.5), aspect="equal")
    figures.append(side_by_side(draw, of_fit(field, field, HISTORY), title="two\nlines"))
    for numbers in (1, 4):
        rows = RNG.normal(size=(300, numbers))
        draw, mean = partial(draw_cloud, observations=rows), rows.sum(axis=1)
        exactly = mean + 0.1 if numbers == 1 else None
        figures.append(side_by_side(draw, of_fit(exactly, mean, HISTORY), title="cloud"))
    for figure in figures:
        assert_nothing_is_cut_off(figure)


def test_a_solution_over_few_states_is_drawn_in_large_dots():
    solution = solve(data_of(ROOM, "coordinates"), Column())
    figure = plot.solution(solution)
    assert_nothing_is_cut_off(figure)
    assert figure.axes[0].collections[1].get_sizes().min() > 100
    with pytest.raises(AttributeError, match=r"drogo\.plot\.solution"):
        solution.plot()


def scene(name="", *, door_is_open=False):
    walls = np.zeros((9, 9), dtype=bool)
    walls[[0, 4], :5] = walls[:5, [0, 4]] = True  # a room in a corner of a larger grid
    lava = np.arange(81).reshape(9, 9) == 19
    door, start = Mark(4, 2, "door", door_is_open), Mark(1, 1, "start")
    marks = (Mark(3, 3, "goal"), door, start, Mark(1, 3, "fountain"))
    return Scene(name, walls, lava, marks, np.arange(6), np.array([10, 10, 11, 12, 29, 30]))


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("is_known", [True, False])
def test_figures_of_scenes(count, is_known):
    shown = [scene(f"scene {k}", door_is_open=k > 0) for k in range(count)]
    v = np.arange(6.0)
    truth = v + 0.1 if is_known else None
    figure = over_scenes(shown, *of_fit(truth, v, HISTORY), title="two\nlines")
    assert_nothing_is_cut_off(figure)
    maps = [axes for axes in figure.axes if axes.images]
    assert len(maps) == (3 if is_known else 1) * count
    assert all(axes.get_xlim() == (-0.5, 4.5) for axes in maps)
    assert [text.get_text() for text in maps[0].texts] == ["G", "D", "S", "?"]
    colours = [axes.texts[1].get_color() for axes in maps[:count]]
    assert colours == ["white", *["black"] * (count - 1)]
    assert "S: start, D: door (black: closed), orange: lava" in figure.get_supxlabel()
    figure = over_scenes(shown, [Panel(np.where(v > 0, v, -np.inf))], title="exact")
    assert_nothing_is_cut_off(figure)
    assert figure.axes[0].images[1].get_clim() == (2, 5)
