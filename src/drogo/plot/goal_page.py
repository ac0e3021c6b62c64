"""A page in which a click on a cell shows the map to it. It needs nothing but a browser."""

from __future__ import annotations

import base64
import html
import json
from string import Template
from typing import TYPE_CHECKING

import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.colors import to_hex

from drogo.plot.panels import COLOURS, LOW_REWARD, MINUS_INFINITY, WALL

if TYPE_CHECKING:
    from drogo.worlds.grid import GridWorld

PIXELS = 640

PAGE = Template("""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>$title</title>
<style>
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 44rem; color: #222 }
canvas { cursor: pointer; max-width: 100%; border: 1px solid #999 }
p { margin: .6rem 0 }
</style>
<h1>$title</h1>
<p>Click a cell to make it the goal. Colours show how good it is to go there from everywhere else,
around the costly cells (framed): yellow is best, dark is worst, and grey does not lead there.</p>
<canvas id="map" width="$width" height="$height" role="img" aria-label="$title"></canvas>
<p id="status" aria-live="polite"></p>
<script>
const data = $data;
const bytes = Uint8Array.from(atob(data.columns), c => c.charCodeAt(0));
const v = new Float32Array(bytes.buffer), n = data.cells.length, side = data.side;
const canvas = document.getElementById("map"), pen = canvas.getContext("2d");
const line = document.getElementById("status");
const at = new Map(data.cells.map(([row, column], s) => [row + "," + column, s]));
let goal = data.goal;
const where = s => "row " + data.cells[s][0] + ", column " + data.cells[s][1];
function draw() {
  const values = v.subarray(goal * n, (goal + 1) * n);
  const low = values.reduce((a, b) => Number.isFinite(b) ? Math.min(a, b) : a, 0);
  pen.fillStyle = data.wall; pen.fillRect(0, 0, canvas.width, canvas.height);
  data.cells.forEach(([row, column], s) => {
    const share = low < 0 ? 1 - values[s] / low : 1;
    pen.fillStyle = Number.isFinite(values[s])
      ? data.colours[Math.round(share * (data.colours.length - 1))] : data.grey;
    pen.fillRect(column * side, row * side, side, side);
    if (data.low[s]) {
      pen.strokeStyle = data.frame; pen.lineWidth = 2;
      pen.strokeRect(column * side + 2, row * side + 2, side - 4, side - 4);
    }
  });
  const [row, column] = data.cells[goal];
  pen.font = Math.round(side * 0.8) + "px sans-serif";
  pen.textAlign = "center"; pen.textBaseline = "middle";
  pen.lineWidth = 3; pen.strokeStyle = "white"; pen.fillStyle = "black";
  for (const write of [pen.strokeText, pen.fillText])
    write.call(pen, "★", (column + .5) * side, (row + .5) * side);
  line.textContent = "The goal is " + where(goal) + "; the lowest value is " + low.toFixed(2) + ".";
}
function state(event) {
  const scale = canvas.width / canvas.clientWidth / side;
  return at.get(Math.floor(event.offsetY * scale) + "," + Math.floor(event.offsetX * scale));
}
canvas.addEventListener("click", event => {
  const s = state(event);
  if (s !== undefined) { goal = s; draw(); }
});
canvas.addEventListener("mousemove", event => {
  const s = state(event);
  if (s === undefined) return;
  const value = v[goal * n + s];
  line.textContent = "From " + where(s) + " to " + where(goal) + ": " +
    (Number.isFinite(value) ? value.toFixed(2) : "no way") + ".";
});
draw();
</script>
</html>
""")


def goal_page(
    world: GridWorld, log_columns: Float[np.ndarray, "states states"], goal: int, *, title: str
) -> bytes:
    """Returns the page, which shows the map to `goal` first, as the content of a file."""
    height, width = world.shape
    side = max(4, PIXELS // max(height, width))
    colours = matplotlib.colormaps[COLOURS](np.linspace(0, 1, 256))
    content = {"cells": world.cells.tolist(), "low": world.low_reward.tolist(), "goal": goal}
    content |= {"side": side, "wall": WALL, "grey": MINUS_INFINITY, "frame": LOW_REWARD}
    content["colours"] = [to_hex(colour) for colour in colours]
    content["columns"] = base64.b64encode(log_columns.astype("<f4").tobytes()).decode()
    sizes = {"width": width * side, "height": height * side}
    return PAGE.substitute(title=html.escape(title), data=json.dumps(content), **sizes).encode()
