"""What this machine answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from coven.governance.world import CaseProbe, no_machine, this_machine


def test_case_is_probed_once_per_volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    probe = CaseProbe()
    folds = probe(str(tmp_path / "a" / "missing"))
    (tmp_path / "Probe").write_text("")
    assert folds is (tmp_path / "pROBE").exists()
    monkeypatch.setattr(Path, "samefile", lambda *_: pytest.fail("asked twice"))
    assert probe(str(tmp_path)) is folds


def test_a_volume_that_folds_case_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.exists
    monkeypatch.setattr(Path, "exists", lambda path: real(path) or path.name.isupper())
    monkeypatch.setattr(Path, "samefile", lambda path, other: True)
    (tmp_path / "lower").mkdir()
    assert CaseProbe()(str(tmp_path / "lower"))


def test_a_place_that_is_not_there_counts_as_its_folder(tmp_path: Path) -> None:
    machine = this_machine()
    assert machine.free_bytes(str(tmp_path / "a" / "b")) > 0
    assert machine.physical(str(tmp_path / "a")) == str(tmp_path.resolve() / "a")


def test_programs_are_looked_up_where_the_child_looks(tmp_path: Path) -> None:
    program = tmp_path / "tool"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert this_machine(search_path=str(tmp_path)).which("tool") == str(program)
    assert this_machine(search_path="/nowhere").which("tool") is None


def test_examples_are_tried_on_no_machine_at_all() -> None:
    machine = no_machine()
    assert machine.physical("/x") == "/x"
    assert machine.which("git") is None
    for question in (machine.free_bytes, machine.addresses):
        with pytest.raises(OSError, match="known"):
            question("x")
    assert machine.analyse("ls").unanalysable
