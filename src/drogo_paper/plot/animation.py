"""Animated figures."""

from __future__ import annotations

import io
from collections.abc import Sequence

from matplotlib.figure import Figure
from PIL import Image

from drogo.plot.panels import as_png

COLOURS = 256
"""The number of colours of an animation, which all its frames share."""
METHOD = Image.Quantize.MAXCOVERAGE
"""Keeps the colours of large areas, such as white."""


def as_gif(figures: Sequence[Figure]) -> bytes:
    """Returns figures of one size as the content of an animated GIF, which repeats for ever and
    shows the last frame for longer."""
    frames = []
    for figure in figures:
        if frames:
            _lay_out_like(figures[0], figure)
        frames.append(Image.open(io.BytesIO(as_png(figure, 80))).convert("RGB"))
    palette = _beside(frames[0], frames[len(frames) // 2], frames[-1]).quantize(COLOURS, METHOD)
    few = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    milliseconds = [250] * (len(few) - 1) + [2000]
    stream = io.BytesIO()
    few[0].save(stream, "GIF", save_all=True, append_images=few[1:], duration=milliseconds, loop=0)
    return stream.getvalue()


def _lay_out_like(first: Figure, figure: Figure) -> None:
    """Copies the positions of panels from another figure, so that nothing jumps between frames, and
    the layout, which takes longer than drawing, is computed once."""
    figure.set_layout_engine("none")
    for panel, pattern in zip(figure.axes, first.axes, strict=True):
        panel.set_axes_locator(None)  # pyright: ignore[reportArgumentType]
        panel.set_position(pattern.get_position())


def _beside(*frames: Image.Image) -> Image.Image:
    """Returns one image of several frames, for a palette of all their colours."""
    width, height = frames[0].size
    joined = Image.new("RGB", (width * len(frames), height))
    for k, frame in enumerate(frames):
        joined.paste(frame, (k * width, 0))
    return joined
