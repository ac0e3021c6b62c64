"""`drogo reproduce` and `drogo report`, on short runs."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from drogo_paper import ablation, ablation_answer, reproduce, shaping, shaping_successor
from drogo_paper.engines import RunsFailed
from drogo_paper.engines.job import Outcome, perform
from drogo_paper.engines.store import Store
from drogo_paper.scope import Scope
from raising import refused

TINY = Scope("library", 2, quick=True)
NAME = "library-2seeds-quick"
SCOPE = '{"protocol": "library", "seeds": 2, "quick": true}'
SCOPES = [
    "{",
    '{"protocol": "library", "seeds": 2}',
    SCOPE.replace("2", '"2"'),
    SCOPE.replace("t", ""),
]
DAMAGED = [("answers.json", "["), ("answers.json", "[1]"), *(("scope.json", s) for s in SCOPES)]


@pytest.fixture
def tiny(monkeypatch):
    """Runs of a few updates with two objectives and little data, searched and used in one world."""
    for module in (ablation, ablation_answer):
        monkeypatch.setattr(module, "WORLDS", ("grid-task",))
        monkeypatch.setattr(module, "SEARCHED", "grid-task")
    for kind in (ablation.TABULAR, ablation.NETWORK):
        few = replace(kind, objectives=("natural_gdo", "drogo"), quick_updates=20)
        monkeypatch.setitem(ablation_answer.QUESTIONS, kind.name, ablation_answer.question(few))
    monkeypatch.setattr(ablation, "TRANSITIONS", 2000)


@pytest.mark.slow
def test_a_question_with_rounds(tiny, tmp_path):
    """The ablation runs its searches, then the settings they chose, and nothing twice."""
    store, done, added, names = Store(tmp_path), [], [], ["ablation-tabular"]

    def run(jobs, store, listen):
        for job in jobs:
            scratch = store.scratch(job)
            scratch.mkdir(parents=True, exist_ok=True)
            store.put(job, *perform(job, scratch, lambda fraction: None))
            done.append(job.label)

    for _ in range(2):
        reproduce.run(names, TINY, store, SimpleNamespace(run=run), print, added.append)
        assert added == [2, 2]  # two searches, then the chosen settings in every world
        assert len(done) == 4
    answer = reproduce.answers(names, TINY, store)["ablation-tabular"]
    assert [row[1] for row in answer.tables[0].rows] == ["natural_gdo", "drogo", "a constant"]
    assert set(answer.numbers) == {"natural_gdo", "drogo"}


def test_questions_without_their_runs_theory_and_searches(tmp_path):
    names = ["ring", "cosine", "shaping", "environments", "ablation-tabular", "theory"]
    answers = reproduce.answers(names, TINY, Store(tmp_path))
    assert set(answers) == {"ring", "environments", "theory"}
    verdicts = {row[0]: row[3] for row in answers["theory"].tables[0].rows}
    assert verdicts.pop("proposition 3.2, as printed") == "does not hold"
    assert set(verdicts.values()) == {"holds"}
    cosines = np.array([[[0.1, 0.1]], [[0.9, 0.7]], [[np.nan, 1.0]]])
    facts = {"grid": ["step_size", "penalty"], "points": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]}
    searched = Outcome({"cosine_transition": cosines}, facts)
    best = ablation.best_setting(TINY, ablation.TABULAR, "gdo", lambda job: searched)
    assert best == {"step_size": 3, "penalty": 4}


@pytest.mark.slow
def test_the_command_and_its_page(command, tmp_path, monkeypatch):
    # The tests of the page draw.
    monkeypatch.setattr("drogo_paper.report.as_png", lambda figure, dpi: b"a picture")
    monkeypatch.setattr("drogo_paper.illustrations.LAMBDAS", (20.0, 100.0))
    arguments = ("reproduce", "ring", "--quick", "--out", tmp_path)
    answer = command(*arguments)
    assert (answer.status, answer.err) == (0, "")
    page_file = tmp_path / NAME / "report.html"
    page, text = page_file.read_text(), page_file.with_suffix(".md").read_text()
    assert "http" not in re.sub(r"base64,[^\"]+", "", page)
    assert all(f'id="{target}"' in page for target in re.findall(r'href="#([^"]+)"', page))
    assert page.count("<img") == 1
    for figure in re.findall(r"\((figures/[^)]+)\)", text):
        assert page_file.with_name(figure).is_file()
    assert "Not answered, because their runs are missing: cosine" in text
    assert command("report", tmp_path).status == 0
    assert page_file.read_text().count("<img") == 4  # all that needs no run
    answer = command(*arguments, "--json")
    assert page_file.read_text().count("<img") == 4  # a part does not shrink it
    numbers = json.loads(answer.out)["answers"]["ring"]["numbers"]
    assert numbers["low-reward cells crossed"] == {"SR": 5, "DR": 0}


def test_a_run_that_fails_does_not_stop_the_others(tiny, tmp_path):
    failures, done = {"search": "broken"}, []

    def run(jobs, store, listen):
        good = [job for job in jobs if "search" not in job.label]
        for job in good:
            store.put(job, Outcome({}), {})
        done.extend(job.label for job in good)
        if len(good) < len(jobs):
            raise RunsFailed("search: broken", failures=failures)

    rest = (TINY, Store(tmp_path), SimpleNamespace(run=run), print, print)
    error = refused(RunsFailed, None, reproduce.run, ["ablation-network"], *rest)
    assert error.failures == failures
    assert done == ["drogo, ablation-network, grid-task"]


def successor_outcome():
    """Q-learning with two settings and two seeds, of which the second setting does not converge: the
    goal is worth -74 from the start."""
    converges, does_not = [[-90, -74, -74]] * 2, [[-74, -90, -80], [-90, -80, -90]]
    arrays = {
        "weight": np.array([0.25, 0.5]), "step_size": np.array([1.0, 0.3]),
        "returns": np.array([converges, does_not], dtype=float),
        "arrived": np.ones((2, 2, 3), dtype=bool), "best_return": np.full((2, 2, 3), -74.0),
        "low_reward_visits": np.array([[50, 60], [165, 175]]), "q": np.zeros((1, 2, 1, 4)),
        "until_final": np.array([[150.0, 160.0], [299.0, 300.0]]),
    }  # fmt: skip
    return Outcome({f"SR/{name}": part for name, part in arrays.items()}, {"methods": ["SR"]})


def test_a_quick_look_is_not_compared_with_the_paper(monkeypatch):
    runs = successor_outcome()
    assert "paper" not in shaping_successor.answer(TINY, lambda job: runs).verdict
    everyone = ["none", "SR", *(f"DR {kind}" for kind in ("one-hot", "coordinates", "pixels"))]
    grid = shaping.grids_in(runs)["SR"]
    assert (grid.chosen, shaping_successor.reported(grid)) == (0, 0)
    soon = replace(grid, until_final=np.array([[150.0, 160.0], [99.0, 100.0]]))
    assert shaping_successor.reported(soon) == 0  # the other one ends at -85, far from -74
    soon = replace(soon, returns=np.maximum(grid.returns, -80))
    assert (soon.chosen, shaping_successor.reported(soon)) == (0, 1)
    monkeypatch.setattr(shaping, "grids_of", lambda *arguments: dict.fromkeys(everyone, grid))
    whole, quick = (shaping.answer(replace(TINY, quick=q), lambda job: None) for q in (False, True))
    assert {"paper", "verdict"} < set(whole.tables[0].header)
    assert not {"paper", "verdict"} & set(quick.tables[0].header)
    assert len(quick.tables[0].rows[0]) == len(quick.tables[0].header)


@pytest.fixture
def filled(tmp_path, monkeypatch):
    """The file of one finished run, and the directory of its report."""
    monkeypatch.setattr("drogo_paper.report.as_png", lambda figure, dpi: b"a picture")
    monkeypatch.setattr(reproduce, "QUESTIONS", {"shaping-successor": "shaping_successor"})
    monkeypatch.setattr(shaping_successor, "WORLDS", ("grid-room",))
    store, directory = Store(tmp_path / "runs"), tmp_path / NAME
    job = shaping_successor.job(TINY, "grid-room")
    store.put(job, successor_outcome(), {"duration": 1.0, "machine": "here", "versions": {}})
    directory.mkdir()
    (directory / "scope.json").write_text(SCOPE)
    return store.place(job), directory


@pytest.fixture
def error(command, tmp_path):
    """Returns the kind and the argument of the error of a report."""

    def run():
        answer = command("report", tmp_path, "--json")
        assert answer.status == 2
        return tuple(json.loads(answer.out)[name] for name in ("kind", "argument"))

    return run


def test_a_damaged_run_is_named(command, error, filled, tmp_path):
    place, directory = filled
    assert command("report", tmp_path).status == 0
    page = (directory / "report.html").read_bytes()
    place.write_bytes(place.read_bytes()[:-30] + bytes(30))
    assert error() == ("DamagedFile", None)
    assert (directory / "report.html").read_bytes() == page
    answer = command("report", tmp_path)  # it was moved aside the first time
    assert answer.status == 2
    assert f"moved aside before: {place.name}.damaged-" in answer.err
    (directory / "answers.json").write_text('["shaping-successor"]')  # it is not replaced by less
    assert error() == ("ArgumentError", "directory")
    assert (directory / "report.html").read_bytes() == page


@pytest.mark.parametrize(("name", "content"), DAMAGED)
def test_a_damaged_file_of_a_report_is_named(error, filled, name, content):
    (filled[1] / name).write_text(content)
    assert error() == ("DamagedFile", None)
