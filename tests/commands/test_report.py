"""``tflow report``, ``runs``, ``compare`` and ``trace``, as one types them."""

from __future__ import annotations

import http.client
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import pytest

from tests.commands.conftest import Typed
from tests.observe.page_check import check_page
from tests.observe.trace_format import check_trace
from tflow import PlanError
from tflow.observe.server import ReportServer
from tflow.settings.files import read_file

QUICK = ("--num-envs", "2", "--fragment", "32", "--epochs", "1", "--model", "MLP((8,))", "--plain")


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: Typed) -> Path:
    """Two seeds of PPO, and one run that was traced, in ``runs``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "140")
    for words in (("--seeds", "0..1", "--out", "runs/both"), ("--lr", "1e-4", "--trace", "--out", "runs/traced")):
        code, _, err = typed("train", "ppo", *QUICK, "--stop-steps", "200", "--eval-every", "100", "--eval-episodes", "1", *words)
        assert code == 0, err
    return tmp_path / "runs"


def test_from_runs_to_a_report(runs: Path, typed: Typed) -> None:
    code, out, _ = typed("runs")
    assert code == 0
    lines = out.splitlines()
    assert [line.split()[0] for line in lines] == ["run", "runs/both/seed-0", "runs/both/seed-1", "runs/traced"]
    assert all(word in lines[1] for word in ("finished", "ppo", "CartPole-v1"))
    steps = json.loads((runs / "traced" / "run.json").read_text())["metrics"]["env_steps"]
    assert f"{steps:,}" in lines[3]

    code, out, _ = typed("report", "runs/traced")
    assert code == 0
    assert "runs/traced/report.html (1 run)" in out
    assert "PPO on CartPole-v1" in check_page((runs / "traced" / "report.html").read_text()).text
    Path("runs/both/seed-0.log").write_text("as --jobs writes it")
    Path("runs/both/report.html").write_text("of both")
    every = [str(path) for path in sorted(Path("runs/both").iterdir())]
    assert "runs/both/seeds.csv" in every
    assert "report.html (2 runs)" in typed("report", *every)[1], "runs/both/*"
    assert typed("compare", *every)[0] == 0
    code, out, _ = typed("report", "runs", "-o", "all.html")
    assert "all.html (3 runs)" in out
    check_page(Path("all.html").read_text())

    code, out, _ = typed("compare", "runs/both", "runs/traced", "-o", "compared.html")
    assert code == 0
    assert out.startswith("CartPole-v1:\nwhat ")
    assert ".." in next(line for line in out.splitlines() if line.startswith("ppo") and " 2 " in line), "an interval of two seeds"
    assert "0.0001" in next(line for line in out.splitlines() if " 1 " in line), "told by what differs"
    check_page(Path("compared.html").read_text())

    code, out, _ = typed("trace", "runs/traced")
    assert code == 0
    assert "ui.perfetto.dev" in out
    assert "ParallelRollouts" in out
    check_trace((runs / "traced" / "trace.json").read_text())


def test_runs_can_be_read_on_a_narrow_terminal(tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    spec = "EnvSpec('CartPole-v1', kwargs={'render_mode': None}, wrappers=('gymnasium.wrappers:TimeAwareObservation',))"
    for name, algo, env in (("first", "/home/me/with/a/long/path/mine.py:MyPPO", "CartPole-v1"), ("second", "ppo", spec)):
        path = tmp_path / "runs" / name
        path.mkdir(parents=True)
        (path / "config.toml").write_text(f"[run]\nalgo = {json.dumps(algo)}\n")
        status = {"status": "finished", "env": env, "metrics": {"env_steps": 1_234_567}}
        (path / "run.json").write_text(json.dumps(status))
    code, out, _ = typed("runs")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert all(word in out for word in ("runs/first", "runs/second", "finished", "mine.py:MyPPO", "CartPole-v1+", "1,234,567"))


def test_a_run_that_was_not_traced_is_run_again(runs: Path, typed: Typed) -> None:
    before = (runs / "both" / "seed-0" / "run.json").read_bytes()
    code, out, err = typed("trace", "runs/both/seed-0", "--seconds", "0.2", "-o", "mine.json")
    assert code == 0, err
    assert "was not traced" in out
    assert len(check_trace(Path("mine.json").read_text())) > 20
    assert (runs / "both" / "seed-0" / "run.json").read_bytes() == before
    assert typed("trace", "runs/both/seed-0", "--seconds", "0.2")[1].splitlines()[-1]
    assert check_trace(Path("seed-0-trace.json").read_text())
    assert not (runs / "both" / "seed-0" / "trace.json").exists(), "it is left alone"


def test_a_trace_that_a_kill_has_cut_is_mended(runs: Path, typed: Typed) -> None:
    path = runs / "traced" / "trace.json"
    path.write_text(path.read_text()[:-40])
    assert typed("trace", "runs/traced")[0] == 0
    assert check_trace(path.read_text())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("report", "nothing"), "'nothing' does not exist. tflow runs lists the runs that there are."),
        (("report", "void"), "'void' is no run folder: it has none of run.json, metrics.jsonl, metrics.csv."),
        (("compare", "file"), "'file' is a file. Name the folder of a run"),
        (("trace", "void"), "'void' is no run folder"),
        (
            ("trace", "seeds"),
            "'seeds' is no run folder: it has none of run.json, metrics.jsonl, metrics.csv. There are runs in it: ",
        ),
        (
            ("graph", "seeds"),
            "'seeds' is no run folder: it has none of run.json, metrics.jsonl, metrics.csv. There are runs in it: ",
        ),
        (("trace", "plan"), "plan was not traced, and has no config.toml"),
        (("runs",), "There is no folder 'runs'."),
        (("runs", "file"), "There is no folder 'file'."),
        (("report", "plan", "-o", "no/where.html"), "Cannot write 'no/where.html'"),
        (
            ("report", "plan", "-o", "all.png"),
            "A report is a page of HTML, not .png: 'all.png'. Name a file that ends with .html",
        ),
        (("compare", "plan", "-o", "all.pdf"), "A report is a page of HTML, not .pdf: 'all.pdf'."),
        (("report", "seeds.csv"), "'seeds.csv' is a file."),
        (("report", "plan", "--live", "-o", "x.html"), "leave out --output"),
        (("report",), "Missing argument"),
    ],
)
def test_what_cannot_be_is_a_sentence(
    words: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: Typed
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    Path("seeds.csv").write_text("")
    Path("void").mkdir()
    Path("plan").mkdir()
    Path("plan/run.json").write_text("{}")
    Path("seeds/seed-0").mkdir(parents=True)
    Path("seeds/seed-0/run.json").write_text("{}")
    code, _, err = typed(*words)
    assert code == 2
    assert said in err
    assert "Traceback" not in err


def test_paths_are_whole_where_no_terminal_breaks_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: Typed) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    folder = Path("runs", "a-folder-with-a-long-name" * 4, "seed-0")
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"status": "finished", "env": "some_package.some_module/SomeEnv-v1"}))
    _, out, _ = typed("runs")
    (line,) = out.splitlines()[1:]
    assert line.split()[:2] == [str(folder), "finished"]


def test_no_runs_is_no_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: Typed) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runs").mkdir()
    assert typed("runs") == (0, "No run is in runs. tflow train makes one.\n", "")


@contextmanager
def served(*paths: Path) -> Iterator[ReportServer]:
    with ReportServer(paths) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def asked(server: ReportServer, method: str, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_the_live_report_is_up_to_date_and_for_who_knows_its_address(runs: Path) -> None:
    with served(runs / "traced") as server:
        assert server.server_address[0] == "127.0.0.1"
        secret = urlsplit(server.url).path
        assert len(secret) > 30
        code, text = asked(server, "GET", secret)
        assert code == 200
        assert 'http-equiv="refresh"' in text
        assert "finished" in check_page(text).text
        status = json.loads((runs / "traced" / "run.json").read_text())
        (runs / "traced" / "run.json").write_text(json.dumps({**status, "status": "interrupted"}))
        assert "interrupted" in check_page(asked(server, "GET", secret)[1]).text
        for path in ("/", secret[:-1], f"{secret}run.json", "/../run.json", secret[:-3] + "xx/"):
            code, text = asked(server, "GET", path)
            assert code == 403
            assert "PPO" not in text
        for method in ("POST", "PUT", "DELETE", "HEAD", "OPTIONS"):
            assert asked(server, method, secret)[0] == 501
        shutil.rmtree(runs / "traced")
        code, text = asked(server, "GET", secret)
        assert code == 500
        assert "does not exist" in text
    with served(runs / "both") as other:
        assert urlsplit(other.url).path != secret


def test_a_port_that_is_taken_is_a_sentence(tmp_path: Path) -> None:
    with ReportServer([tmp_path]) as server, pytest.raises(PlanError, match="Leave out --port"):
        ReportServer([tmp_path], server.server_port)


def test_a_run_from_python_has_a_report_without_settings_of_a_command(runs: Path) -> None:
    """What a report knows of settings is what the file says."""
    fields, table = read_file(runs / "traced" / "config.toml")
    assert fields["lr"] == 1e-4
    assert table["algo"] == "ppo"
