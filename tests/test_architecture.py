"""The layers of the design, the lazy imports, and the house rules that a machine can check."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import tflow
from tests.laws.world import PROVEN, operators
from tflow.combinators import nodes
from tflow.laws import LAWS, OPERATOR_LAWS, laws_of
from tflow.mypy_plugin.public import homes
from tflow.runtime import executor

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "tflow"
NAMESPACES = ("actors", "data", "envs", "exploration", "losses", "models", "operators", "optimizers", "schedules")
HEAVY = {"torch", "ray", "gymnasium", "hypothesis", "mypy", "IPython"}

# What each part of tflow may import of tflow, and what it may not import at all. The longest prefix counts.
MAY_IMPORT = {
    "types": set[str](),
    "live": {"types"},
    "errors": set(),
    "extras": {"errors"},
    "laws": set(),
    "domain": set(),
    "sentences": {"domain"},
    "marks": set(),
    "state": {"errors", "state"},
    "combinators": {"types", "live", "errors", "laws", "domain", "sentences", "combinators"},
    "runtime": {"types", "live", "errors", "state", "combinators", "runtime"},
    "rl": {"types", "live", "errors", "state", "extras", "laws", "domain", "sentences", "combinators", "rl"},
    **{name: {"combinators", "rl"} for name in NAMESPACES},
    "algos": {"types", "errors", "state", "combinators", "rl", "algos"},
    "loading": {"errors"},
    "settings": {"__init__", "errors", "sentences", "combinators", "rl", "algos", "loading", "settings"},
    "presets": {"errors", "sentences", "algos", "settings"},
    "scaffold": {"__version__", "errors", "algos"},
    "tuning": {"errors", "sentences", "extras", "combinators", "rl", "algos", "settings", "observe", "tuning"},
    "observe": {
        "__init__",
        "errors",
        "state",
        "sentences",
        "extras",
        "combinators",
        "rl",
        "algos",
        "loading",
        "drawing",
        "settings",
        "observe",
    },
    "commands": {
        "errors",
        "state",
        "sentences",
        "combinators",
        "rl",
        "algos",
        "loading",
        "settings",
        "presets",
        "scaffold",
        "observe",
        "tuning",
        "commands",
    },
    "mypy_plugin": {"__init__", "domain", "sentences", "mypy_plugin"},
    "checking": {"errors", "extras", "laws", "mypy_plugin", "checking"},
    "drawing": {"types", "errors", "marks", "combinators", "loading", "drawing"},
    "testing": {"types", "live", "errors", "state", "extras", "laws", "combinators", "runtime", "rl", "testing", "pytest_plugin"},
    "pytest_plugin": set(),
    "cli": {"*"},
    "__main__": {"cli"},
    "__init__": {"*"},
}
FORBIDDEN = {
    "types": HEAVY | {"time", "random", "threading", "numpy"},
    "errors": HEAVY | {"time", "random", "threading", "numpy"},
    "extras": HEAVY,
    "combinators": HEAVY | {"time", "random", "threading", "numpy"},
    "laws": HEAVY | {"time", "random", "threading", "numpy"},
    "domain": HEAVY | {"time", "random", "threading", "numpy"},
    "sentences": HEAVY | {"time", "random", "threading", "numpy"},
    "marks": HEAVY | {"time", "random", "threading", "numpy"},
    "mypy_plugin": (HEAVY - {"mypy"}) | {"time", "random", "threading", "numpy"},
    "checking": (HEAVY - {"mypy"}) | {"random", "threading", "numpy"},
    "drawing": HEAVY | {"time", "random", "threading", "numpy"},
    "live": HEAVY | {"time", "random", "threading", "numpy"},
    "state": HEAVY,
    "runtime": HEAVY,
    "rl": (HEAVY | {"time", "threading", "random"}) - {"torch", "gymnasium"},
    **dict.fromkeys(NAMESPACES, HEAVY),
    "algos": HEAVY | {"time", "random", "threading", "numpy"},
    "loading": HEAVY | {"time", "random", "threading", "numpy"},
    "settings": HEAVY | {"time", "random", "threading", "numpy"},
    "tuning": HEAVY | {"time", "random", "threading", "numpy"},
    "presets": HEAVY | {"time", "random", "threading", "numpy"},
    "scaffold": HEAVY | {"time", "random", "threading", "numpy"},
    "observe": HEAVY | {"random", "threading", "numpy"},
    "commands": HEAVY | {"time", "random", "threading", "numpy"},
    "testing": HEAVY - {"hypothesis"},
    "pytest_plugin": HEAVY | {"hypothesis", "numpy"},
    "cli": set(),
    "__main__": HEAVY,
    "__init__": HEAVY,
}
FILES = sorted(PACKAGE.rglob("*.py"))


def part_of(module: str) -> str:
    """``tflow.runtime.local`` belongs to ``runtime``."""
    return module.split(".")[1] if "." in module else "__init__"


def imports(path: Path) -> list[tuple[str, bool]]:
    """Imported modules; True if the import is only for type checkers or happens when a function runs."""
    found: list[tuple[str, bool]] = []

    def visit(node: ast.AST, lazy: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                found.extend((alias.name, lazy) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{path}: relative import"
                module = child.module or ""
                found.extend((f"{module}.{alias.name}" if module == "tflow" else module, lazy) for alias in child.names)
            later = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))
            checking = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            visit(child, lazy or later or checking)

    visit(ast.parse(path.read_text()), False)
    return found


def wrong_imports(path: Path) -> Iterator[str]:
    """What a file imports against the layers."""
    part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if part not in MAY_IMPORT:
        yield f"say in this test what {part} may import"
        return
    allowed = {"ray"} if path.name == "ray.py" else set()
    for module, lazy in imports(path):
        top = module.split(".")[0]
        ours = top == "tflow" and "*" not in MAY_IMPORT[part]
        harmful = (not lazy or top in {"time", "random", "threading"}) and top in FORBIDDEN[part] - allowed
        if top == "ray" and not allowed:
            yield "only runtime/ray.py imports ray"
        elif harmful or (ours and not lazy and part_of(module) not in MAY_IMPORT[part]):
            yield f"{part} must not import {module}"


def test_layers() -> None:
    assert len(FILES) > 100
    assert [f"{path.relative_to(ROOT)}: {wrong}" for path in FILES for wrong in wrong_imports(path)] == []


LATE = {
    "types": {"live"},
    "live": {"combinators", "runtime"},
    "laws": {"runtime"},
    "marks": {"combinators"},
    "combinators": {"runtime", "rl", "state", "drawing"},
    "rl": {"runtime"},
    "algos": {"runtime"},
    "settings": {"runtime"},
    "commands": {"types", "runtime"},
    "drawing": {"commands", "observe"},
    "checking": {"__version__"},
    "mypy_plugin": {"combinators", "types", "errors"},
    "pytest_plugin": {"testing"},
}
"""What a part may import for type checkers, or when a function runs."""


POSIX = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "termios", "tty"}
POSIX_ONLY = re.compile(
    r"(?:os\.(?:fork|getuid|geteuid|killpg|setsid|uname|O_DIRECTORY)|signal\.(?:SIGHUP|SIGKILL|SIGALRM|SIGUSR\d|alarm|setitimer))$"
)


def test_importing_tflow_takes_nothing_that_only_posix_has() -> None:
    """Windows is not tested; what could be known of it is: no import fails there. What runs later has to ask first."""
    found = [f"{path.relative_to(ROOT)}: {module}" for path in FILES for module, _ in imports(path) if module in POSIX]
    for path in FILES:
        waiting: list[ast.AST] = [ast.parse(path.read_text())]
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.Attribute) and POSIX_ONLY.match(ast.unparse(node)):
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}")
            inner = ast.iter_child_nodes(node)
            waiting += [each for each in inner if not isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))]
    assert found == []


def test_imports_that_happen_late_are_few() -> None:
    late: dict[str, set[str]] = {}
    for path in FILES:
        part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        known = MAY_IMPORT[part] | {"*"}
        for module, lazy in imports(path):
            if lazy and module.startswith("tflow") and "*" not in MAY_IMPORT[part] and part_of(module) not in known:
                late.setdefault(part, set()).add(part_of(module))
    assert late == LATE


def test_only_run_reaches_from_combinators_into_the_runtime_and_only_the_type_of_batches_into_rl() -> None:
    lazy = {
        (path.name, module)
        for path in (PACKAGE / "combinators").glob("*.py")
        for module, _ in imports(path)
        if module.startswith(("tflow.runtime", "tflow.rl"))
    }
    assert lazy == {
        ("runnable.py", "tflow.runtime.base"),
        ("runnable.py", "tflow.runtime.executor"),
        ("runnable.py", "tflow.runtime.snapshot"),  # validate(saving=True)
        ("stream.py", "tflow.rl.data.batch"),  # with_columns is typed with it
        ("par.py", "tflow.rl.data.batch"),
        ("columns.py", "tflow.rl.data.batch"),
        ("columns.py", "tflow.rl.data.arrays"),
    }


RL_WORDS = re.compile(
    r"rollout|replay|reward|gradient|advantage|learner|optimi[sz]er|worker|episode|loss|ppo|dqn|tflow\.(rl|algos)|(?<!fault_)polic(y|ies)",
    re.IGNORECASE,
)
RULE = {"policy", "tflow-policy", "a policy that the workers do not have", "on-policy training on a stream without a barrier"}
"""The public name of a rule, and what its page is called."""


def words_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Names and strings of a file, without docstrings and imports."""
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.lineno, node.value
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.lineno, node.name
        elif isinstance(node, (ast.Name, ast.Attribute, ast.arg)):
            name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else node.arg
            yield node.lineno, name


def test_combinators_and_the_plugin_contain_no_word_of_rl() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {word}"
        for path in FILES
        if path.parent.name in ("combinators", "mypy_plugin")
        for line, word in words_of(ast.parse(path.read_text()))
        if RL_WORDS.search(word) and word not in RULE and "close" not in word
    ]
    assert found == []


def test_importing_and_running_tflow_loads_nothing_heavy() -> None:
    code = f"""
import sys, tflow
assert not {HEAVY!r} & set(sys.modules), {HEAVY!r} & set(sys.modules)
assert list(tflow.par_from_range(3).gather_sync().run()) == [0, 2, 1]
assert not {HEAVY | {"numpy", "rich", "typer"}!r} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_the_names_at_the_root_are_few_and_the_rest_is_in_namespaces() -> None:
    namespaces = [name for name in dir(tflow) if isinstance(getattr(tflow, name), ModuleType)]
    root = set(dir(tflow)) - {*namespaces, "__version__"}
    assert len(root) <= 68
    assert {"losses", "models", "schedules", "exploration", "algos", "testing"} <= set(namespaces)
    assert root <= homes().keys()
    for name, module in homes().items():
        found = getattr(import_module(module), name)
        assert getattr(found, "__origin__", found).__doc__, f"{module}.{name} has no docstring"
        if name in root:
            assert getattr(tflow, name) is found
    with pytest.raises(AttributeError, match="No tflow attribute nothing"):
        getattr(tflow, "nothing")  # noqa: B009  # checkers know that it is not there


def test_every_operator_states_its_law() -> None:
    silent = [name for name, member in operators().items() if "Law:" not in (member.__doc__ or "")]
    assert silent == []
    assert len(operators()) > 40


def test_every_operator_says_which_laws_it_obeys_and_a_test_proves_each() -> None:
    proofs()
    promised = {name: laws_of(member) for name, member in operators().items() if laws_of(member)}
    assert operators().keys() - promised.keys() == set(), "say it with @obeys(...)"
    claims = {(operator, law.name) for operator, laws in promised.items() for law in laws}
    assert claims - PROVEN.keys() == set(), "quote it in a test with @proves(...)"


def proofs() -> None:
    """Import the tests that quote laws: importing them fills ``PROVEN``."""
    for module in ("test_transforms", "test_gather", "test_collectives", "test_merge_and_split", "test_runs", "test_combinators"):
        import_module(f"tests.laws.{module}")


def test_every_law_is_quoted() -> None:
    proofs()
    quoted = {name for _, name in PROVEN} | {law.name for law in OPERATOR_LAWS}
    assert LAWS.keys() - quoted == set()


def test_every_node_has_a_cell() -> None:
    classes = [kind for kind in vars(nodes).values() if isinstance(kind, type) and issubclass(kind, nodes.Node)]
    leaves = {kind for kind in classes if not kind.__subclasses__()}
    fused = {kind for kind in leaves if kind.fuses_as is not None}  # steps of a chain
    inside = {
        nodes.FromActors,
        nodes.Repartition,
        nodes.Scatter,
        nodes.AllGather,
        nodes.BatchTogether,
        nodes.Reduce,
    }  # they run inside actors, as Pulled, Fed and steps
    assert len(leaves) > 20
    assert leaves - set(executor.DRIVER_CELLS) - fused - inside - {kind for kind in leaves if kind.arranges} == set()


def test_no_public_class_name_is_defined_twice() -> None:
    """One thing, one name: readers search for it."""
    homes: dict[str, list[str]] = {}
    for path in FILES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


@pytest.mark.filterwarnings("default")
def test_files_can_be_read_in_a_sitting() -> None:
    """A long file is a question, not a mistake: does it hold two ideas?"""
    for path in FILES:
        lines = path.read_text().count("\n")
        if lines > 600:
            warnings.warn(f"{path.relative_to(ROOT)} has {lines} lines: does it hold two ideas?", stacklevel=1)
        assert lines < 1_500, path


def test_files_say_what_they_are_for_and_why_they_leave_the_types() -> None:
    for path in FILES:
        text = path.read_text()
        if "from __future__" in text:
            assert ast.get_docstring(ast.parse(text)), f"{path}: say what the file is for"
        for number, line in enumerate(text.splitlines(), 1):
            if "type: ignore" in line or "pyright: ignore" in line:
                assert line.count("#") >= 2, f"{path}:{number}: say why on the same line"
            if re.search(r"(?<!typing\.)\bAny\b", line.split("#")[0]) and "import" not in line and '"""' not in line:
                assert "Any:" in line, f"{path}:{number}: say why Any on the same line"


def test_descriptions_import_no_torch() -> None:
    """``X_spec.py`` describes; ``X.py`` beside it runs."""
    specs = sorted(PACKAGE.rglob("*_spec.py"))
    assert len(specs) >= 5
    for path in specs:
        assert path.with_name(path.name.replace("_spec", "")).exists(), f"{path}: what runs it?"
    modules = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in specs]
    code = f"import sys, importlib\n[importlib.import_module(name) for name in {modules!r}]\nassert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
