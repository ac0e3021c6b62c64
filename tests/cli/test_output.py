"""Printed and drawn output on odd terminals and with odd names."""

import io
from contextlib import redirect_stdout

import pytest

from drogo.cli import main, pictures
from drogo.cli.output import BOLD, NEW, print_table, table, terminal

ODD = "[red]a$\\frac{$ :smile:"


@pytest.fixture
def odd_map(tmp_path):
    path = tmp_path / f"{ODD}.txt"
    path.write_text("#####\n#S.G#\n#####")
    return path


def test_names_are_printed_and_drawn_as_they_are(odd_map, tmp_path, command, monkeypatch):
    """With rich's markup and emoji codes, and with what matplotlib takes for a formula."""
    monkeypatch.setenv("COLUMNS", "400")
    titles = []
    draw = pictures.plot.heatmap

    def heatmap(*arguments, title, **options):
        figure = draw(*arguments, title=title, **options)
        titles.append(figure.axes[0].title)
        return figure

    monkeypatch.setattr(pictures.plot, "heatmap", heatmap)
    answer = command("exact", odd_map, "--out", tmp_path / "out")
    assert answer.status == 0
    # In the title, which has line breaks, and in the name of the result.
    assert "".join(answer.out.split()).count("".join(ODD.split())) == 2
    shown, is_formula = titles[0]._preprocess_math(titles[0].get_text())
    assert not is_formula
    assert shown.startswith(f"{ODD}: column")


def test_a_narrow_terminal_shows_whole_numbers(odd_map, tmp_path, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    answer = command("exact", odd_map, "--out", tmp_path / "out")
    assert "\nlog e: -0.505197 to 0\n" in answer.out
    assert "\nstatus: converged\n" in answer.out
    (directory,) = (tmp_path / "out").iterdir()
    assert f"{NEW}: {directory}/picture.png with vector.npz\n" in answer.out
    assert "\nGymnasium id: drogo/GridTask-v0\n" in command("envs").out


def test_bold_cells(capsys, monkeypatch):
    for width, expected in (("80", "[1.5]"), ("5", "number: [1.5]")):
        monkeypatch.setenv("COLUMNS", width)
        print_table(terminal(), table("title", "", [{"number": f"{BOLD}[1.5]{BOLD}"}], left=()))
        assert expected in [line.strip() for line in capsys.readouterr().out.splitlines()]


def test_a_terminal_that_has_only_ascii(odd_map, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    path = odd_map.rename(tmp_path / "é☃.txt")
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    with redirect_stdout(out):
        main(["exact", str(path), "--out", str(tmp_path / "out")])
    text = out.buffer.getvalue().decode()
    assert "converged" in text
    assert "\\xe9\\u2603.txt,3states" in "".join(text.split())
