"""Mutation testing: ``make mutants MODULE=tflow/runtime/gather.py``. Not part of CI.

Changes one thing at a time (``mutations.py``) and lets the tests that execute the changed line judge, with few examples each. Which
tests those are is measured once, with ``coverage``. All is done in copies of one process that has collected the tests: a copy gets
the changed function in place of the right one and runs tests, the quickest first, until one fails. So nothing is written, imported
or collected per mutant; only a change outside of functions needs a process of its own. Prints what no test has noticed.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import importlib
import importlib.machinery
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import NoReturn

import pytest

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))

from tests.quality.mutations import Mutant, mutants_of, mutated  # noqa: E402  # this file is run as a script

BUILD = ROOT / "build" / "mutants" if "TFLOW_MUTANTS" not in os.environ else Path(os.environ["TFLOW_MUTANTS"])
COPIED = (
    "tflow",
    "tests",
    "docs",
    "examples",
    "benchmarks",
    "pyproject.toml",
    "README.md",
    "CHANGELOG.md",
    "Makefile",
    "constraints.txt",
)
JUDGES = ("tests/unit", "tests/laws", "tests/rl")
BUDGET_S = 40.0
"""For one mutant: how long the tests that may notice it take on the unchanged module."""
MEMORY = 4 << 30
KILLED, SURVIVED, UNTESTED = "killed", "survived", "untested"


@dataclass(frozen=True)
class Cover:
    """Which tests execute which line, and how long they take."""

    seconds: dict[str, float]
    lines: dict[str, dict[str, list[str]]]
    """By module and line."""
    sources: dict[str, str]
    """What the modules were, as a hash."""

    def knows(self, module: str) -> bool:
        return self.sources.get(module) == digest(module)


def digest(module: str) -> str:
    return hashlib.sha256((ROOT / module).read_bytes()).hexdigest()


# --------------------------------------------------------------------------- copies of this process


def forked(work: Callable[[], object], seconds: float) -> bool:
    """Do it in a copy of this process: True if it was done in time, False if it ended otherwise."""
    child = os.fork()
    if child == 0:
        os.setsid()
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    ends, status = time.monotonic() + seconds, None
    while status is None and time.monotonic() < ends:
        done, found = os.waitpid(child, os.WNOHANG)
        status = found if done else None
        if not done:
            time.sleep(0.02)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # it, if it hangs, and whatever it has left
    if status is None:
        os.waitpid(child, 0)
    return status == 0


def limit_memory() -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))


class Failures:
    """The plugin that notices failures, those in fixtures as well."""

    def __init__(self) -> None:
        self.count = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.count += report.failed


def passes(item: pytest.Item, failures: Failures) -> bool:
    before = failures.count
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
    return failures.count == before


# --------------------------------------------------------------------------- what covers what


def measure(items: Sequence[pytest.Item], failures: Failures, known: Cover, path: Path) -> None:
    """Run every test and write down which lines it executes, if it passes. For a copy of this process."""
    import coverage

    # Functions that are loaded already are traced, too; the data are kept in memory.
    measuring = coverage.Coverage(data_file=None, source=[str(ROOT / "tflow")], config_file=False, messages=False)
    measuring.set_option("run:core", "ctrace")
    seconds: dict[str, float] = {}
    right: set[str] = set()
    measuring.start()
    for item in items:
        measuring.switch_context(item.nodeid)
        start = time.process_time()
        right.update([item.nodeid] if passes(item, failures) else [])
        seconds[item.nodeid] = time.process_time() - start
    measuring.stop()
    data = measuring.get_data()
    lines = known.lines
    for file in data.measured_files():
        of_module = lines.setdefault(os.path.relpath(file, ROOT), {})
        for line, tests in data.contexts_by_lineno(file).items():
            of_module.setdefault(str(line), []).extend(each for each in tests if each in right)
    sources = {**{name: digest(name) for name in lines}, **known.sources}
    cover = {"seconds": {**known.seconds, **seconds}, "lines": lines, "sources": sources}
    path.write_text(json.dumps(cover))


def covering(cover: Cover, module: str, mutant: Mutant) -> set[str]:
    lines = cover.lines.get(module, {})
    wanted = range(mutant.line, mutant.last_line + 1) if mutant.in_function else map(int, lines)
    return {test for line in wanted for test in lines.get(str(line), ())}


def judges_of(cover: Cover, tests: Iterable[str], recent: Sequence[str]) -> list[str]:
    """Tests that may notice, those first that have noticed something lately, then the quickest."""
    found = [test for test in recent if test in tests][:5]
    found += sorted(set(tests) - set(found), key=lambda test: (cover.seconds[test], test))
    spent = 0.0
    chosen: list[str] = []
    for test in found:
        spent += cover.seconds[test]
        if spent > BUDGET_S and chosen:
            break
        chosen.append(test)
    return chosen


# --------------------------------------------------------------------------- one mutant


def codes(code: CodeType) -> list[CodeType]:
    return [code, *(each for value in code.co_consts if isinstance(value, CodeType) for each in codes(value))]


def exchange(module: str, source: str, mutant: Mutant) -> bool:
    """Put the changed function in the place of the right one, wherever it is; False if it cannot be."""
    path = str(ROOT / module)
    old, new = (codes(compile(tree, path, "exec")) for tree in (source, mutated(source, mutant)))
    live: dict[tuple[str, int], list[FunctionType]] = {}
    for each in gc.get_objects():
        if type(each) is FunctionType and each.__code__.co_filename == path:
            live.setdefault((each.__code__.co_qualname, each.__code__.co_firstlineno), []).append(each)
    exchanged = 0
    for before, after in zip(old, new, strict=False):
        for function in live.get((before.co_qualname, before.co_firstlineno), ()) if before != after else ():
            if before.co_freevars != after.co_freevars:
                return False
            function.__code__ = after
            exchanged += 1
    return exchanged > 0


def elsewhere(module: str, mutant: Mutant, tests: Sequence[str], seconds: float) -> bool:
    """The same in a process of its own, which imports the changed module."""
    command = [sys.executable, __file__, module, "--one", json.dumps([mutant.place, mutant.variant, *tests])]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        try:
            return process.wait(seconds) == 0
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return False


def in_a_copy(folder: Path) -> NoReturn:
    """Start again in a copy of the project, so that work can go on in this one."""
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.rmtree(folder / name, ignore_errors=True)
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", ".mypy_cache"))
        else:
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    environment = {**os.environ, "TFLOW_MUTANTS": str(BUILD), "PYTHONPATH": str(folder)}
    os.execve(sys.executable, [sys.executable, str(folder / "tests/quality/mutants.py"), *sys.argv[1:]], environment)


def one(module: str, place: int, variant: int, *tests: str) -> NoReturn:
    """What that process does: the module is changed while it is imported."""
    source = (ROOT / module).read_text()
    (mutant,) = (each for each in mutants_of(source) if (each.place, each.variant) == (place, variant))
    changed = compile(mutated(source, mutant), str(ROOT / module), "exec")
    usual = importlib.machinery.SourceFileLoader.get_code

    def get_code(loader: importlib.machinery.SourceFileLoader, name: str) -> CodeType | None:
        return changed if Path(loader.path) == ROOT / module else usual(loader, name)

    importlib.machinery.SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]  # the import system has no other hook for this
    sys.exit(pytest.main(["-x", "-q", *OPTIONS, *tests]))


# --------------------------------------------------------------------------- a session of pytest


OPTIONS = (
    "--assert=plain",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    "--no-header",
    "-m",
    "not ray and not full and not native",
)


class Session:
    """The plugin that puts mutants in the place of the run of the tests."""

    def __init__(self, modules: Sequence[str], *, again: bool) -> None:
        self.modules = modules
        self.again = again
        self.failures = Failures()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        session.config.pluginmanager.register(self.failures)
        cover = self.cover(items)
        for module in self.modules:
            self.judge(module, cover, items)
        return True

    def cover(self, items: dict[str, pytest.Item]) -> Cover:
        """What was measured before, if the modules are the same; only new tests are measured now."""
        path = BUILD / "cover.json"
        cover = Cover(**json.loads(path.read_text())) if path.exists() else Cover({}, {}, {})
        if not all(map(cover.knows, self.modules)):
            cover = Cover({}, {}, {})
        if new := [item for name, item in items.items() if name not in cover.seconds]:
            print(f"measuring which of {len(new)} tests execute which lines", flush=True)
            BUILD.mkdir(parents=True, exist_ok=True)
            forked(lambda: measure(new, self.failures, cover, path), 7200)
            cover = Cover(**json.loads(path.read_text()))
        return cover

    def judge(self, module: str, cover: Cover, items: dict[str, pytest.Item]) -> None:
        source, start = (ROOT / module).read_text(), time.monotonic()
        importlib.import_module(module.removesuffix(".py").replace("/", "."))  # tflow imports late
        path = BUILD / f"{module.replace('/', '.')}.json"
        before = json.loads(path.read_text()) if self.again and path.exists() else {}
        recent: list[str] = []
        outcomes: dict[str, str] = {}
        for mutant in mutants_of(source):
            name = f"{mutant.line}: {mutant.what}"
            if before.get(name) == KILLED:
                outcomes[name] = KILLED
                continue
            tests = judges_of(cover, covering(cover, module, mutant) & items.keys(), recent)
            outcomes[name] = self.outcome(module, source, mutant, tests, cover, items, recent)
            path.write_text(json.dumps(outcomes, indent=1))
        report(module, outcomes, time.monotonic() - start)

    def outcome(
        self,
        module: str,
        source: str,
        mutant: Mutant,
        tests: list[str],
        cover: Cover,
        items: dict[str, pytest.Item],
        recent: list[str],
    ) -> str:
        if not tests:
            return UNTESTED
        seconds = 30 + 8 * sum(cover.seconds.get(test, 1) for test in tests)
        at = BUILD / "at"

        def judged() -> None:
            limit_memory()
            if not exchange(module, source, mutant):
                os._exit(2)
            for test in tests:
                at.write_text(test)
                if not passes(items[test], self.failures):
                    os._exit(1)

        at.write_text("")
        if mutant.in_function:
            passed = forked(judged, seconds)
            killer = at.read_text()
            if passed or killer:
                if not passed:
                    recent[:] = [killer, *(each for each in recent if each != killer)]
                return SURVIVED if passed else KILLED
        return SURVIVED if elsewhere(module, mutant, tests, seconds + 30) else KILLED


def report(module: str, outcomes: dict[str, str], seconds: float) -> None:
    for name, outcome in outcomes.items():
        if outcome != KILLED:
            print(f"  {outcome} {name}")
    killed = sum(outcome == KILLED for outcome in outcomes.values())
    print(f"{module}: {killed} of {len(outcomes)} killed, {killed / max(1, len(outcomes)):.0%}, {seconds:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="+", help="such as tflow/runtime/gather.py")
    parser.add_argument("--judges", nargs="+", default=JUDGES, help="folders or files of tests")
    parser.add_argument("--again", action="store_true", help="try those that survived the last run with the tests of today")
    parser.add_argument("--report", action="store_true", help="only report on the last run")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    os.environ["HYPOTHESIS_PROFILE"] = "mutants"
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    if "TFLOW_MUTANTS" not in os.environ:
        in_a_copy(BUILD / "project")
    os.chdir(ROOT)
    if arguments.one:
        one(arguments.modules[0], *json.loads(arguments.one))
    if arguments.report:
        for module in arguments.modules:
            report(module, json.loads((BUILD / f"{module.replace('/', '.')}.json").read_text()), 0)
        return
    plugin = Session(arguments.modules, again=arguments.again)
    sys.exit(pytest.main(["-q", "-s", *OPTIONS, *arguments.judges], plugins=[plugin]))


if __name__ == "__main__":
    main()
