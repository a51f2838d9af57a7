"""Reports: of runs in every state, alone and together; true, self-contained, and legible."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.algos.test_algorithms import SMALL
from tests.observe.page_check import check_page, contrast
from tests.observe.test_folder import odd_workers
from tflow import ApplyGradients, ComputeGradients, Metrics, ParallelRollouts, PlanError, ReportMetrics, RunFolder, Stop, train
from tflow.algos import PPO, PPODQN, Callback, TrainingRun
from tflow.drawing import svg as drawing
from tflow.models import MLP
from tflow.observe import page_style
from tflow.observe.bottleneck import annotated, times_of, verdict
from tflow.observe.groups import differences, grouped, overall
from tflow.observe.kept import asked_runs, read_run, runs_in
from tflow.observe.page import page
from tflow.runtime.sim import Faults, SimRuntime

QUICK = PPO(num_workers=2, num_envs=2, fragment=16, epochs=1, minibatch=32, model=MLP((8,)))
ROW = {"env_steps": 0, "updates": 0, "seconds": 1.0}


def made(path: Path, config: PPO | PPODQN = QUICK, *, seed: int = 0, steps: int = 300) -> Path:
    """A run in a folder."""
    keeper = RunFolder(path, log_every_s=0, checkpoint_every=None)
    config.run(stop=Stop(env_steps=steps), callbacks=[keeper], eval_every=100, eval_episodes=1, seed=seed).finish()
    return path


def by_hand(path: Path, rows: list[Mapping[str, float | None]], **status: object) -> Path:
    """A run folder with these rows."""
    path.mkdir(parents=True)
    (path / "run.json").write_text(json.dumps({"status": "finished", "env": "E-v0", **status}))
    (path / "metrics.jsonl").write_text("".join(f"{json.dumps({**ROW, **row})}\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of two kinds, two seeds each."""
    runs = tmp_path_factory.mktemp("runs")
    for name, config in (("slow", replace(QUICK, lr=1e-4)), ("fast", replace(QUICK, lr=1e-2))):
        for seed in (0, 1):
            made(runs / name / f"seed-{seed}", config, seed=seed)
    return runs


def test_the_report_of_a_run_has_all_parts(folder: Path) -> None:
    run = read_run(folder / "slow" / "seed-0")
    found = check_page(page([run]))
    for part in ("Learning", "Where the time goes", "The plan", "Training", "Calls, items, deaths", "Configuration", "Runs"):
        assert part in found.text
    assert "PPO on CartPole-v1" in found.text
    assert "finished" in found.text
    assert "ParallelRollouts(workers)" in found.text
    assert re.search(r"takes \d+% of the time, more than anything else", found.text)
    assert "No actor died" in found.text
    assert f"{run.last['return']:.4g}" in found.text


def test_what_is_drawn_was_measured(folder: Path) -> None:
    """Counts are those of the run; shares are of its time; rates are counts by time."""
    run = read_run(folder / "slow" / "seed-0")
    times, drawn = times_of(run), annotated(run)
    assert times is not None
    assert drawn is not None
    assert 0 < sum(work.share for work in times.works) <= 1.001
    measured = run.stats["operators"]
    assert [each["operator"] for each in measured] == [node.label.partition("\n")[0] for node in drawn.nodes[: len(measured)]]
    rollouts = measured[0]["shown"]
    assert 0.9 < run.stats["env_steps"] / (rollouts * QUICK.num_envs * QUICK.fragment) <= 1, "a reset is no step"
    edge = next(edge for edge in drawn.edges if edge.source == 0 and edge.is_flow)
    assert float(edge.shown.rpartition("\n")[2].removesuffix("/s").replace("k", "e3")) == pytest.approx(
        rollouts / times.seconds, rel=0.01
    )
    ledger = run.stats["ledger"]
    assert ledger["calls"]["issued"] == sum(ledger["calls"][name] for name in ("in_flight", "answered", "lost", "abandoned"))


def test_settings_are_told_from_their_defaults(folder: Path) -> None:
    run = read_run(folder / "slow" / "seed-0")
    changed = {each.name: (each.value, each.default) for each in run.settings if each.changed}
    assert changed["lr"] == ("0.0001", str(PPO().lr))
    assert changed["num_envs"] == ("2", str(PPO().num_envs))
    assert "gamma" not in changed
    assert "algo" not in {each.name for each in run.run_settings if each.changed}, "which has no default"
    found = check_page(page([run])).text
    assert "changed" in page([run])
    assert f"All {len(run.settings) + len(run.run_settings)} settings" in found


def test_seeds_are_taken_together_and_kinds_are_named_by_what_differs(folder: Path) -> None:
    groups = grouped(asked_runs([folder]))
    assert {group.name: len(group.runs) for group in groups} == {"ppo, lr 0.0001": 2, "ppo, lr 0.01": 2} or {
        group.name for group in groups
    } == {"ppo, slow", "ppo, fast"}
    for group in groups:
        assert group.estimate is not None
        assert min(group.scores) <= group.estimate.low <= group.estimate.high <= max(group.scores)
    found = check_page(page(asked_runs([folder])))
    assert "2 kinds of runs on CartPole-v1" in found.text
    assert "interquartile means over seeds" in found.text
    assert all(group.name in found.text for group in groups)
    only_lr = differences([{each.name: each.value for each in group.runs[0].settings} for group in groups])
    assert set(only_lr) == {"lr"}


def test_several_envs_have_a_panel_each_and_a_score_over_all(folder: Path, tmp_path: Path) -> None:
    runs = [*asked_runs([folder]), *asked_runs([made(tmp_path / "other", replace(QUICK, env="Acrobot-v1", lr=1e-4))])]
    found = check_page(page(runs)).text
    assert "Learning on CartPole-v1" in found
    assert "Learning on Acrobot-v1" in found
    assert overall(grouped(runs)) == {}, "not the same kinds ran on both"
    kinds = [
        by_hand(tmp_path / f"{algo}-{env}-{seed}", [{"env_steps": 10, "return": value + seed}], env=env)
        for algo, env, value in (("a", "X", 0), ("a", "Y", 50), ("b", "X", 9), ("b", "Y", 150))
        for seed in (0, 1)
    ]
    for path in kinds:
        (path / "config.toml").write_text(f'[run]\nalgo = "{path.name[0]}"\n')
    united = overall(grouped(asked_runs(kinds)))
    assert united["a"].value < 0.2 < 0.8 < united["b"].value
    assert "Over all envs" in check_page(page(asked_runs(kinds))).text


def test_a_seed_counts_once_however_often_it_ran(tmp_path: Path) -> None:
    first = by_hand(tmp_path / "a", [{"env_steps": 10, "return": 1.0}], seed=0)
    longer = by_hand(tmp_path / "b", [{"env_steps": 10, "return": 2.0}, {"env_steps": 20, "return": 5.0}], seed=0)
    other = by_hand(tmp_path / "c", [{"env_steps": 20, "return": 7.0}], seed=1)
    for path in (first, longer, other):
        (path / "config.toml").write_text('[run]\nalgo = "ppo"\n')
    (alone,) = grouped(asked_runs([first, longer, first]))
    assert (alone.count, alone.scores) == ("2 of 1 seed", [5.0])
    (both,) = grouped(asked_runs([first, longer, other]))
    assert (both.count, both.scores) == ("3 of 2 seeds", [5.0, 7.0])
    found = check_page(page(both.runs)).text
    assert "ppo on E-v0, 3 runs" in found
    assert "interquartile mean of 2 seeds" in found
    assert "score of 1 seed" in check_page(page(alone.runs)).text


def test_a_group_of_many_settings_and_folders_is_not_named_by_one_of_them(tmp_path: Path) -> None:
    for name in ("a", "b", "c", "d"):
        path = by_hand(tmp_path / name, [{"env_steps": 10, "return": 1.0}], seed="abcd".index(name))
        value = "x" if name == "d" else "y"
        settings = [{"name": f"setting_{each}", "value": value, "default": "x"} for each in range(5)]
        run = [{"name": "algo", "value": "/home/me/mine.py:MyPPO", "default": ""}]
        (path / "plan.json").write_text(json.dumps({"settings": settings, "run": run}))
    names = [group.name for group in grouped(asked_runs([tmp_path]))]
    assert names == ["mine.py:MyPPO, setting_0 y, ...", "mine.py:MyPPO"]


def test_several_policies_have_a_curve_each(tmp_path: Path) -> None:
    run = read_run(made(tmp_path / "run", PPODQN(num_envs=2, num_workers=1, ppo_batch=64)))
    assert {"PPO/return", "DQN/return"} <= set(run.returns)
    assert "Mean return of PPO" in page([run])
    check_page(page([run]))


class Stops(Callback):
    """Ends a run after its first report, in some way; keeps a copy of its folder as it is meanwhile."""

    def __init__(self, error: BaseException, copy: tuple[Path, Path]) -> None:
        self.error, self.copy = error, copy

    def reported(self, run: TrainingRun, metrics: Metrics) -> None:
        shutil.copytree(*self.copy)
        raise self.error


def test_runs_in_every_state_have_a_report(tmp_path: Path) -> None:
    keeper = RunFolder(tmp_path / "failed")
    run = QUICK.run(callbacks=[keeper, Stops(ValueError("my <b>mistake</b>"), (tmp_path / "failed", tmp_path / "running"))])
    with pytest.raises(ValueError, match="mistake"):
        run.finish()
    shutil.copytree(tmp_path / "running", tmp_path / "killed")
    status = json.loads((tmp_path / "killed" / "run.json").read_text())
    (tmp_path / "killed" / "run.json").write_text(json.dumps({**status, "process_began": "0", "pid": 2**22 + 1}))
    with (tmp_path / "killed" / "metrics.jsonl").open("a") as file:
        file.write('{"env_steps": 1')
    states = {path.name: read_run(path).state for path in runs_in(tmp_path)}
    assert states == {"failed": "failed", "running": "running", "killed": "killed"}
    for path in runs_in(tmp_path):
        found = check_page(page([read_run(path)]))
        assert states[path.name] in found.text
    found = check_page(page([read_run(tmp_path / "failed")]))
    assert "my <b>mistake</b>" in found.text, "as text"
    check_page(page(asked_runs([tmp_path])))


def test_a_run_without_a_report_and_one_without_numbers_have_a_page(tmp_path: Path) -> None:
    empty = by_hand(tmp_path / "empty", [])
    assert "Nothing has been reported yet" in check_page(page([read_run(empty)])).text
    unknown: list[Mapping[str, float | None]] = [{"env_steps": 10 * step, "return": None} for step in range(5)]
    nans = by_hand(tmp_path / "nans", unknown)
    with (nans / "metrics.jsonl").open("a") as file:
        file.write('{"env_steps": 90, "return": NaN, "learner/loss": Infinity}\n')
    found = check_page(page([read_run(nans)])).text
    assert "No episode has ended yet" in found
    for each in ("run.json", "plan.json", "stats.json", "config.toml"):
        (nans / each).write_text("{cut")
    check_page(page([read_run(nans)]))
    check_page(page(asked_runs([tmp_path])))


def test_offline_runs_go_by_updates(tmp_path: Path) -> None:
    rows: list[Mapping[str, float | None]] = [
        {"updates": 10.0 * step, "learner/loss": 1 / (step + 1), "evaluation/return": float(step), "evaluation/weights_at": 0}
        for step in range(6)
    ]
    run = read_run(by_hand(tmp_path / "offline", rows))
    assert run.progress == "updates"
    assert run.evaluations == [(10.0 * step, float(step)) for step in range(6)]
    assert ">updates</text>" in page([run])
    assert "env steps</text>" not in page([run])


def test_a_plan_of_ones_own_has_a_report(tmp_path: Path) -> None:
    workers = odd_workers()
    grads = ParallelRollouts(workers).par_for_each(ComputeGradients()).gather_async()
    plan = ReportMetrics(grads.for_each(ApplyGradients(workers)), workers)
    train(plan, stop=Stop(updates=3), callbacks=[RunFolder(tmp_path / "run")]).finish()
    run = read_run(tmp_path / "run")
    assert run.algorithm == "plan"
    found = check_page(page([run])).text
    assert "A plan of one's own" in found
    assert "ApplyGradients" in found


def test_deaths_are_kept_and_told(tmp_path: Path) -> None:
    """Also those before a run was resumed."""
    config = replace(SMALL["A3C"], num_workers=2)
    with SimRuntime([0, 1, 0, 0, 1] * 200, Faults(dies_after=2)) as session:
        run = config.run(stop=Stop(updates=40), callbacks=[RunFolder(tmp_path / "run")], runtime=session)
        run.finish()
        deaths = run.run.deaths
    assert deaths
    kept = read_run(tmp_path / "run")
    assert [each["actor"] for each in kept.stats["deaths"]] == [death.actor for death in deaths]
    found = check_page(page([kept])).text
    assert f"{len(deaths)} death" in found
    assert deaths[0].why in found
    assert kept.stats["ledger"]["calls"]["lost"] >= len(deaths)


def test_a_folder_of_an_earlier_version_has_a_report(folder: Path, tmp_path: Path) -> None:
    old = shutil.copytree(folder / "slow" / "seed-0", tmp_path / "old")
    for name in ("plan.json", "stats.json"):
        (old / name).unlink()
    run = read_run(old)
    found = page([run])
    assert "an earlier version wrote it" in check_page(found).text
    assert 'src="data:image/svg+xml;base64,' in found
    assert {each.name: each.value for each in run.settings}["lr"] == "0.0001"


def test_names_are_text_and_nothing_else(tmp_path: Path) -> None:
    name = "<script>alert(\"1\")</script> & 'x'".replace("/", "|")
    rows: list[Mapping[str, float | None]] = [
        {"env_steps": 5.0 * step, "return": float(step), f"learner/{name}": step} for step in range(3)
    ]
    warned = [{"env_steps": 1, "warning": name}]
    paths = [
        by_hand(tmp_path / f"{name}{number}", rows, env=name, outcome=name, host=name, warnings=warned, versions={name: name})
        for number in range(2)
    ]
    (paths[0] / "config.toml").write_text(f"x = {json.dumps(name)}\n[run]\nalgo = {json.dumps(name)}\n")
    (paths[1] / "plan.json").write_text(json.dumps({"title": name, "nodes": [], "edges": [], "settings": []}))
    for runs in ([read_run(paths[0])], [read_run(paths[1])], asked_runs(paths)):
        text = page(runs)
        assert "alert" not in "".join(re.findall(r"<script>(.*?)</script>", text, re.DOTALL))
        assert name in check_page(text).text


def test_what_is_no_run_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path, said in (
        (tmp_path, "is no run folder"),
        (tmp_path / "nothing", "does not exist"),
        (tmp_path / "file", "is a file"),
    ):
        with pytest.raises(PlanError, match=said):
            asked_runs([path])
        with pytest.raises(PlanError, match=said):
            read_run(path)


def test_the_bottleneck_is_what_is_busy_all_the_time(folder: Path) -> None:
    """Where actors work side by side, it is not what takes most seconds."""
    run = read_run(folder / "slow" / "seed-0")
    places = [{"in": ["workers"], "actors": 4}, {"in": [], "actors": 0}, {"in": ["learner"], "actors": 1}]
    labels = ["ParallelRollouts(workers)", "gather_async()", "hand_off(learner, LearnOnBatch)"]

    def told(*busy: float) -> str:
        operators = [
            {"position": at, "operator": label, "busy_s": seconds, "shown": 1}
            for at, (label, seconds) in enumerate(zip(labels, busy, strict=True))
        ]
        stats = {"seconds": 11.0, "starting_s": 1.0, "waited_s": 5.0, "operators": operators}
        kept = replace(run, plan={"places": places}, stats=stats, status={"runtime": "RayRuntime"})
        times = times_of(kept)
        assert times is not None
        return verdict(times)

    assert told(20, 0.1, 9).startswith("The bottleneck is learner, busy 90% of the time (workers 50%")
    assert told(38, 0.1, 2).startswith("The bottleneck is workers, 4 actors, busy 95%")
    assert told(4, 8, 2).startswith("The bottleneck is the driver, busy 80%")
    assert told(4, 0.1, 2).startswith("Nothing is busy all the time")


@pytest.mark.parametrize("palette", [page_style.LIGHT, page_style.DARK], ids=["light", "dark"])
def test_the_page_is_legible_in_both_schemes(palette: Mapping[str, str]) -> None:
    for name in ("ink", "soft", "link", "good", "bad", "warn"):
        for ground in ("page", "card"):
            assert contrast(palette[name], palette[ground]) >= 4.5, f"{name} on {ground}"
    assert contrast(palette["ink"], palette["mark"]) >= 4.5
    assert contrast(palette["soft"], palette["mark"]) >= 4.5
    hues = [palette[f"s{hue}"] for hue in range(8)]
    assert len(set(hues)) == 8
    assert all(contrast(hue, palette["card"]) >= 3 for hue in hues)


@pytest.mark.parametrize("colours", [drawing.LIGHT, drawing.DARK], ids=["light", "dark"])
def test_the_drawing_is_legible_in_both_schemes(colours: drawing.Colours) -> None:
    (card, _), ground = colours["card"], 4.5
    for name in ("actor", "driver", "learner"):
        fill, _, ink = colours[name]
        assert contrast(ink, fill) >= ground
    assert min(contrast(colours[name][0], card) for name in ("ink", "soft", "late")) >= ground
    assert contrast(colours["wire"][0], card) >= 3
