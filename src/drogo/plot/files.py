"""Figures as files."""

from __future__ import annotations

import io

from matplotlib.figure import Figure


def as_png(figure: Figure, dpi: int = 130) -> bytes:
    stream = io.BytesIO()
    # No date or version inside: the same picture is the same file.
    figure.savefig(stream, format="png", dpi=dpi, metadata={"Software": None})
    return stream.getvalue()
