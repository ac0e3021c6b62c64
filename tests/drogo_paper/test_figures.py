"""Figures of the report that need no run."""

import pytest
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from drogo_paper import formulations, questions
from drogo_paper.scope import Scope

MARGIN = 3
"""Pixels that must be left at the edge."""


@pytest.mark.parametrize("name", ["ring", "environments", "natural-gradient", "formulations"])
def test_no_text_is_cut_off(name, monkeypatch):
    monkeypatch.setattr(formulations, "LAMBDAS", formulations.LAMBDAS[-2:])
    (figure,) = questions.find(name).answer(Scope(), lambda job: None).figures.values()
    figure.set_dpi(110)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    width, height = canvas.get_width_height()
    # Among the numbers at an axis are some beyond its ends, which are not drawn.
    outside = []
    ticks = {text for axis in figure.findobj(Axis) for text in axis.get_ticklabels(which="both")}
    for text in set(figure.findobj(Text)) - ticks:
        if not text.get_text().strip() or not text.get_visible():
            continue
        box = text.get_window_extent(canvas.get_renderer())
        inside = box.x0 >= MARGIN and box.y0 >= MARGIN
        if not inside or box.x1 > width - MARGIN or box.y1 > height - MARGIN:
            outside.append((text.get_text(), box.bounds))
    assert not outside
