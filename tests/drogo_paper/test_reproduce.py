"""`drogo reproduce` and `drogo report`, on short runs."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import drogo_paper.jobs
from drogo.agents import Grid
from drogo.cli import main
from drogo.errors import RunsFailed
from drogo.runs.job import Job, Outcome, perform
from drogo.runs.store import Store
from drogo_paper import (
    ablation,
    ablation_answer,
    ablation_network,
    ablation_tabular,
    fits,
    formulations,
    questions,
    report,
    reproduce,
    shaping,
    shaping_successor,
    theory,
)
from drogo_paper.jobs.shaping import ARRAYS
from drogo_paper.jobs.successor import USUAL
from drogo_paper.scope import Scope

TINY = Scope("fast", 2, quick=True)


class InThisProcess:
    """An engine without worker processes, which records what it has run."""

    def __init__(self):
        self.done = []

    def run(self, jobs, store, listen):
        for job in jobs:
            scratch = store.scratch(job)
            scratch.mkdir(parents=True, exist_ok=True)
            outcome, how = perform(job, scratch, lambda fraction: None)
            store.put(job, outcome, how)
            self.done.append(job.label)
            listen(job, "done", how["duration"])


@pytest.fixture
def tiny(monkeypatch):
    """Runs of a few updates with two objectives and little data, searched and used in one world."""
    for module in (ablation, ablation_answer):
        monkeypatch.setattr(module, "WORLDS", ("grid-task",))
        monkeypatch.setattr(module, "SEARCHED", "grid-task")
    few = {"objectives": ("natural_gdo", "drogo"), "quick_updates": 20}
    monkeypatch.setattr(ablation_tabular, "TABULAR", replace(ablation.TABULAR, **few))
    monkeypatch.setattr(ablation_network, "NETWORK", replace(ablation.NETWORK, **few))
    monkeypatch.setattr(ablation, "TRANSITIONS", 2000)


@pytest.mark.slow
def test_a_question_with_rounds(tiny, tmp_path):
    """The ablation runs its searches, then the settings they chose, and nothing twice."""
    store, engine = Store(tmp_path), InThisProcess()
    added = []
    names = ["ablation-tabular"]
    reproduce.run(names, TINY, store, engine, lambda *event: None, added.append)
    assert added == [2, 2]  # two searches, then the chosen settings in every world
    first = len(engine.done)
    reproduce.run(names, TINY, store, engine, lambda *event: None, added.append)
    assert len(engine.done) == first
    answer = reproduce.answers(names, TINY, store)["ablation-tabular"]
    assert [row[1] for row in answer.tables[0].rows] == ["natural_gdo", "drogo", "a constant"]
    assert set(answer.numbers) == {"natural_gdo", "drogo"}


def test_questions_without_their_runs_have_no_answer(tmp_path):
    names = ["ring", "cosine", "eigenvectors", "shaping", "environments", "ablation-tabular"]
    assert set(reproduce.answers(names, TINY, Store(tmp_path))) == {"ring", "environments"}


def test_theory_holds():
    answer = theory.answer(TINY, lambda job: None)
    verdicts = {row[0]: row[3] for row in answer.tables[0].rows}
    assert verdicts.pop("proposition 3.2, as printed") == "does not hold"
    assert set(verdicts.values()) == {"holds"}


def test_ring_shows_what_the_successor_representation_cannot_see():
    numbers = questions.find("ring").answer(TINY, lambda job: None).numbers
    assert numbers["low-reward cells crossed"] == {"SR": 5, "DR": 0}


def test_the_search_takes_the_best(monkeypatch):
    found = Outcome(
        {"cosine_transition": np.array([[[0.1, 0.1]], [[0.9, 0.7]], [[np.nan, 1.0]]])},
        {"grid": ["step_size", "penalty"], "points": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]},
    )
    best = ablation.best_setting(TINY, ablation.TABULAR, "gdo", lambda job: found)
    assert best == {"step_size": 3, "penalty": 4}


def run(capsys, *arguments):
    status = 0
    try:
        main(list(arguments))
    except SystemExit as stop:
        status = int(stop.code or 0)
    captured = capsys.readouterr()
    return captured.out, captured.err, status


@pytest.mark.slow
def test_the_command_and_its_page(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(report, "as_png", lambda figure, dpi: b"a picture")  # the page's tests draw
    monkeypatch.setattr(formulations, "LAMBDAS", formulations.LAMBDAS[-2:])
    out, err, status = run(capsys, "reproduce", "ring", "--quick", "--out", str(tmp_path))
    assert (status, err) == (0, "")
    assert "Figure 1" in out
    directory = tmp_path / "fast-2seeds-quick"
    page = (directory / "report.html").read_text()
    assert "http" not in re.sub(r"base64,[^\"]+", "", page)
    for target in re.findall(r'href="#([^"]+)"', page):
        assert f'id="{target}"' in page
    assert page.count("<img") == 1
    text = (directory / "report.md").read_text()
    for figure in re.findall(r"\((figures/[^)]+)\)", text):
        assert (directory / figure).is_file()
    assert "Not answered, because their runs are missing: cosine" in text
    (directory / "report.html").unlink()
    out, _, status = run(capsys, "report", str(tmp_path))
    assert status == 0
    assert (directory / "report.html").is_file()
    assert (directory / "report.html").read_text().count("<img") == 4  # all that needs no run
    text = (directory / "report.md").read_text()
    assert "proposition 3.13" not in text
    assert "theorem 3.13" in text
    out, _, _ = run(capsys, "reproduce", "ring", "--quick", "--out", str(tmp_path), "--json")
    assert (directory / "report.html").read_text().count("<img") == 4  # a part does not shrink it
    assert "The steepest way up" in json.loads(out)["answers"]["ring"]["verdict"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("reproduce", "cosines"), "Did you mean 'cosine'"),
        (("reproduce", "--seeds", "1"), "at least 2"),
        (("reproduce", "--address", "auto"), "--engine ray"),
        (("report", "nowhere"), "holds no results"),
    ],
)
def test_wrong_use(capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    _, err, status = run(capsys, *arguments)
    assert status == 2
    assert message in err


def test_editing_a_figure_does_not_invalidate_runs():
    """The functions of the jobs have a package of their own, and depend on their settings alone."""
    for job in (
        fits.job(TINY, "four-rooms", "pixels"),
        ablation.search_job(TINY, ablation.NETWORK, "gdo"),
        shaping_successor.job(TINY),
    ):
        assert job.function.startswith("drogo_paper.jobs.")
    for path in Path(drogo_paper.jobs.__file__).parent.rglob("*.py"):
        imports = re.findall(r"^(?:from|import) (drogo_paper\S*)", path.read_text(), re.M)
        assert all(name.startswith("drogo_paper.jobs.") for name in imports)


def test_settings_are_part_of_the_identity():
    ids = {
        fits.job(scope, "four-rooms", "pixels").id
        for scope in (TINY, replace(TINY, seeds=3), replace(TINY, quick=False), Scope("paper", 2))
    }
    assert len(ids) == 4
    assert isinstance(fits.job(TINY, "four-rooms", "pixels"), Job)


def test_a_report_of_other_code_is_not_replaced_by_less(capsys, tmp_path, monkeypatch):
    names = {"environments": "environments", "cosine": "cosine"}
    monkeypatch.setattr(questions, "QUESTIONS", names)
    directory = tmp_path / "fast-2seeds-quick"
    run(capsys, "reproduce", "environments", "--quick", "--out", str(tmp_path))
    (directory / "answers.json").write_text('["environments", "cosine"]')
    page = (directory / "report.html").read_text()
    _, err, status = run(capsys, "report", str(tmp_path))
    assert status == 2
    assert "The runs of cosine are not in" in err
    assert (directory / "report.html").read_text() == page


def test_a_run_that_fails_does_not_stop_the_others(tiny, tmp_path):
    """It is named at the end; what does not depend on it is done."""

    class Failing:
        done: ClassVar[list[str]] = []

        def run(self, jobs, store, listen):
            good = [job for job in jobs if "search" not in job.label]
            for job in good:
                store.put(job, Outcome({}), {})
            self.done.extend(job.label for job in good)
            if len(good) < len(jobs):
                raise RunsFailed("1 of 3 jobs failed:\nsearch: broken")

    names, ignore = ["ablation-network"], lambda *event: None
    with pytest.raises(RunsFailed, match="search: broken"):
        reproduce.run(names, TINY, Store(tmp_path), Failing(), ignore, ignore)
    assert Failing.done == ["drogo, ablation-network, grid-task"]


def successor_outcome(returns, visits):
    """Q-learning with two settings and two seeds: the goal is worth -74 from the start."""
    arrays = {
        "weight": np.array([0.25, 0.5]),
        "step_size": np.array([1.0, 0.3]),
        "returns": np.array(returns, dtype=float),
        "arrived": np.ones((2, 2, 3), dtype=bool),
        "best_return": np.full((2, 2, 3), -74.0),
        "low_reward_visits": np.array(visits),
        "q": np.zeros((1, 2, 1, 4)),
    }
    return Outcome({f"{USUAL}/{name}": part for name, part in arrays.items()}, {"methods": [USUAL]})


CONVERGES = [[-90, -74, -74], [-90, -74, -74]]
DOES_NOT = [[-74, -90, -80], [-90, -80, -90]]


def test_which_setting_of_the_sr_comes_out_as_published():
    """The second setting does not converge and has 170 visits; the paper prints 173 [165, 180]."""
    found = successor_outcome([CONVERGES, DOES_NOT], [[50, 60], [165, 175]])
    answer = shaping_successor.answer(Scope("fast", 2), lambda job: found)
    assert "converges after 0.20 [0.20, 0.20] thousand steps" in answer.verdict
    assert "have both: weight 0.5 and step size 0.3 (1.70, 0 of 2 seeds converge)" in answer.verdict
    found = successor_outcome([CONVERGES, DOES_NOT], [[50, 60], [65, 75]])
    answer = shaping_successor.answer(Scope("fast", 2), lambda job: found)
    assert "no setting of the usual reading has both" in answer.verdict


def test_a_quick_look_is_not_judged_by_the_paper(monkeypatch):
    """It says what it is, and shows neither published numbers nor verdicts about them."""
    found = successor_outcome([CONVERGES, DOES_NOT], [[50, 60], [165, 175]])
    answer = shaping_successor.answer(TINY, lambda job: found)
    assert "paper" not in answer.verdict
    above = report.heading(TINY)
    for page in (
        report.as_html({"a": answer}, {}, {}, above=above),
        report.as_markdown({"a": answer}, {}, "figures", above=above),
    ):
        assert "A quick look at the paper" in page
        assert "Reproducing the paper" not in page
    everyone = ["none", "SR", *(f"DR {kind}" for kind in ("one-hot", "coordinates", "pixels"))]
    parts = (*ARRAYS, "q")
    grid = Grid(every=100, **{part: found.arrays[f"{USUAL}/{part}"] for part in parts})
    monkeypatch.setattr(shaping, "grids_of", lambda *arguments: dict.fromkeys(everyone, grid))
    whole, quick = (shaping.answer(replace(TINY, quick=q), lambda job: None) for q in (False, True))
    assert "published" in whole.verdict
    assert "published" not in quick.verdict
    assert {"paper", "verdict"} & set(whole.tables[0].header)
    assert not {"paper", "verdict"} & set(quick.tables[0].header)
    assert len(quick.tables[0].rows[0]) == len(quick.tables[0].header)


def filled(tmp_path, monkeypatch):
    """A directory of results with one finished run and its report."""
    monkeypatch.setattr(report, "as_png", lambda figure, dpi: b"a picture")
    monkeypatch.setattr(questions, "QUESTIONS", {"shaping-successor": "shaping_successor"})
    store = Store(tmp_path / "runs")
    job = shaping_successor.job(TINY)
    how = {"duration": 1.0, "machine": "here", "versions": {}}
    store.put(job, successor_outcome([CONVERGES, DOES_NOT], [[50, 60], [165, 175]]), how)
    directory = tmp_path / "fast-2seeds-quick"
    directory.mkdir()
    (directory / "scope.json").write_text('{"preset": "fast", "seeds": 2, "quick": true}')
    return directory, store.place(job)


def test_a_damaged_run_is_named(capsys, tmp_path, monkeypatch):
    directory, place = filled(tmp_path, monkeypatch)
    _, err, status = run(capsys, "report", str(tmp_path))
    assert (status, err) == (0, "")
    page = (directory / "report.html").read_bytes()
    place.write_bytes(place.read_bytes()[:-30] + bytes(30))
    _, err, status = run(capsys, "report", str(tmp_path))
    assert status == 2
    error = err.partition("drogo report")[2] or err
    assert f"{place} is damaged" in error
    assert "shaping-successor cannot be answered" in error
    assert (directory / "report.html").read_bytes() == page
    _, err, status = run(capsys, "report", str(tmp_path))  # it was moved aside the first time
    assert status == 2
    assert f"moved aside before: {place.name}.damaged-" in err


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("scope.json", "{", "it is not JSON"),
        ("scope.json", "[]", "does not hold a JSON object"),
        ("scope.json", '{"preset": "fast", "seeds": 2}', "quick is not what"),
        ("scope.json", '{"preset": "fast", "seeds": "2", "quick": true}', "seeds is not what"),
        ("scope.json", '{"preset": "fas", "seeds": 2, "quick": true}', "preset or seeds is not"),
        ("scope.json", '{"preset": "fast", "seeds": 2, "quick": true, "x": 1}', "x is not what"),
        ("answers.json", "[", "it is not JSON"),
        ("answers.json", '{"a": 1}', "does not hold a list of names"),
        ("answers.json", "[1]", "does not hold a list of names"),
    ],
)
def test_a_damaged_file_of_a_report_is_named(capsys, tmp_path, monkeypatch, name, content, problem):
    directory, _ = filled(tmp_path, monkeypatch)
    (directory / name).write_text(content)
    _, err, status = run(capsys, "report", str(tmp_path))
    assert status == 2
    assert f"{directory / name} is damaged: " in err
    assert problem in err
