"""Requests: what identifies a result, and when a result is already there."""

import json

import pytest

from drogo.errors import AlreadyExists, DamagedFile
from drogo.requests import ResultDirectory, differences, digest, plain
from raising import raises, refused
from run_jobs import python_process

ASKED = {"verb": "test", "settings": {"lam": 20.0, "cap": float("inf")}, "world": {"map": "#"}}
REPORT = {"files": {"vector": "vector.npz"}, "seconds": 1.5, "table": {"z": 1, "a": 2}}
CLAIM = """
import sys, time
from pathlib import Path
from drogo.requests import ResultDirectory
with ResultDirectory(Path(sys.argv[1]), "name", {}).begin(overwrite=False):
    print("claimed", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def finished(tmp_path):
    result = ResultDirectory(tmp_path, "name", ASKED)
    assert result.report() is None
    with result.begin(overwrite=False):
        assert result.report() is None
        (result.path / "vector.npz").write_text("")
        assert result.finish(REPORT) == REPORT
    return result


def test_a_result_is_there_when_its_report_is_and_requests_differ(finished):
    with raises(AlreadyExists), finished.begin(overwrite=False):
        pass
    assert (finished.report(), list(finished.report()["table"])) == (REPORT, ["z", "a"])
    assert finished.path.name == f"name-{digest(ASKED)[:8]}"
    assert json.loads((finished.path / "request.json").read_text()) == plain(ASKED)
    changes = ({}, {"verb": "other"}, {"settings": {"lam": 20.0}}, {"world": {"map": "##"}})
    digests = {digest({**ASKED, **change}) for change in changes}
    assert len(digests | {digest(dict(reversed(ASKED.items())))}) == 4
    other = {"verb": "test", "settings": {"lam": 1.0, "cap": "inf"}, "seeds": 3}
    assert differences(other, ASKED) == ["seeds", "settings.lam", "world"]
    assert differences(plain(ASKED), ASKED) == []


def test_a_directory_copied_over_another_is_not_taken_for_it(finished, tmp_path):
    other = ResultDirectory(tmp_path, "name", {**ASKED, "settings": {"lam": 1.0}})
    finished.path.rename(other.path)
    for call in (other.report, other.begin(overwrite=False).__enter__):
        refused(AlreadyExists, None, call)
    with other.begin(overwrite=True):
        assert other.report() is None


def test_what_else_is_in_the_way(finished):
    report, request = finished.path / "report.json", finished.path / "request.json"
    written = report.read_text()
    report.write_text(written.replace("1.5", "1.6"))
    refused(AlreadyExists, None, finished.report)
    report.write_text(written)
    (finished.path / "vector.npz").unlink()
    error = refused(AlreadyExists, None, finished.report)
    assert "--overwrite" in error.for_command_line
    assert "overwrite=True" in str(error)
    request.write_text("{")
    refused(DamagedFile, None, finished.report)
    request.unlink()
    refused(AlreadyExists, None, finished.report)


def test_a_process_that_was_killed_while_it_began_is_in_nobodys_way(tmp_path):
    result = ResultDirectory(tmp_path, "name", ASKED)
    result.path.mkdir()
    (result.path / ".request.json.1234abcd.part").write_text("{")
    assert result.report() is None
    with result.begin(overwrite=False):
        kept = result.finish({"files": {}})
    assert result.report() == kept


def test_one_process_at_a_time_has_a_directory(tmp_path):
    """Also with overwrite; and a claim ends with the process that is killed."""
    result = ResultDirectory(tmp_path, "name", {})
    with python_process(CLAIM, tmp_path) as process:
        assert process.stdout.readline() == "claimed\n"
        for overwrite in (False, True):
            with raises(AlreadyExists), result.begin(overwrite=overwrite):
                pass
    with result.begin(overwrite=False):
        result.finish({"files": {}})
    assert result.report() == {"files": {}}
