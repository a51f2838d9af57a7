"""What is written beside a run, such as a recording or a trace, never ends the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tflow import Run, par_from_range
from tflow.errors import PlanError

BOTH = pytest.mark.parametrize("what", ["recording", "trace"])


def begun(what: str, path: Path, length: int) -> Run[int]:
    stream = par_from_range(length, shards=2).gather_async()
    return stream.run(record=path) if what == "recording" else stream.run(trace=path)


@BOTH
def test_a_full_disk_ends_the_file_and_not_the_run(what: str, caplog: pytest.LogCaptureFixture) -> None:
    run = begun(what, Path("/dev/full"), 2_000)
    assert sorted(run) == list(range(2_000))
    assert [record.message for record in caplog.records] == [
        f"The {what} ends here (/dev/full: No space left on device). The run goes on."
    ]


def test_a_full_disk_does_not_keep_a_run_from_being_saved(tmp_path: Path) -> None:
    with par_from_range(4, shards=2).gather_async().run(record="/dev/full") as run:
        first = next(run)
        run.save(tmp_path / "saved")
    assert [first, *par_from_range(4, shards=2).gather_async().run(resume=tmp_path / "saved")] == [0, 2, 1, 3]


@BOTH
def test_a_place_where_nothing_can_be_written_is_a_sentence(what: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PlanError, match=f"^The {what} cannot be written to .*File exists. Choose another place.$"):
        list(begun(what, tmp_path / "file" / "x", 4))
