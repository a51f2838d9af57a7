"""Checkpoints on disk: whole or not there, read without executing anything, refused with a reason."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import random
import shutil
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, Flag, auto
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from safetensors.numpy import load_file

from tflow import Iter, Live, LiveOp, Run, Shard, Stateful, create_actors, from_actors, from_range, par_from_iterables
from tflow.combinators.actors import Actors
from tflow.errors import CheckpointError, OperatorError, PlanError
from tflow.state import folders
from tflow.state.folders import ARRAYS, ASIDE, FORMAT, MANIFEST, OWN_HASH, STATE, checkpoint_in, checkpoints_in, read
from tflow.state.values import Encoded, decode, encode


class Colour(Enum):
    RED = "red"


class Pair(NamedTuple):
    left: int
    right: object


@dataclass(frozen=True)
class Data:
    numbers: tuple[float, ...]
    inner: object = None

    def __post_init__(self) -> None:
        CALLS.append("constructed")


CALLS: list[str] = []


def through_json(encoded: Encoded) -> Encoded:
    return Encoded(json.loads(json.dumps(encoded.tree, allow_nan=False)), [array.copy() for array in encoded.arrays])


plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.fractions() | st.complex_numbers()
numbers = arrays.arrays(arrays.scalar_dtypes(), arrays.array_shapes(min_dims=0, min_side=0, max_side=4))
values = st.recursive(
    plain | numbers | st.sampled_from([Colour.RED, Data((1.0, 2.0))]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers() | st.tuples(st.integers()), inner, max_size=3)
        | st.builds(Pair, st.integers(), inner)
        | st.builds(lambda each: Data((0.5,), each), inner)
        | st.builds(deque, st.lists(inner, max_size=2), st.none() | st.integers(2, 4))
    ),
    max_leaves=8,
)


def same(one: Any, other: Any) -> bool:  # Any: whatever was drawn
    """Equal, of the same types everywhere, NaN being NaN."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return bool(one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes())
    if isinstance(one, dict):
        return len(one) == len(other) and all(same(*pair) for pair in zip(one.items(), other.items(), strict=True))
    if isinstance(one, (list, tuple, deque)):
        return len(one) == len(other) and all(same(*pair) for pair in zip(one, other, strict=True))
    if isinstance(one, Data):
        return same(vars(one), vars(other))
    return repr(one) == repr(other)


@given(values)
def test_what_is_encoded_comes_back_equal_and_of_the_same_types(value: object) -> None:
    assert same(decode(through_json(encode(value))), value)


@pytest.mark.parametrize(
    "value",
    [
        {1, 2}, frozenset({("a", 1)}), Counter("abca"), MappingProxyType({"a": 1}), range(3, 9, 2), slice(1, None),
        bytearray(b"ab"), torch.arange(6.0).reshape(2, 3), torch.ones(3, dtype=torch.bfloat16), torch.Size((2, 3)),
        np.arange(6).reshape(2, 3).T,
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_other_kinds(value: Any) -> None:  # Any: of many kinds
    found = decode(through_json(encode(value)))
    assert type(found) is type(value)
    assert (
        torch.equal(found, value)
        if isinstance(value, torch.Tensor)
        else np.array_equal(found, value)
        if isinstance(value, np.ndarray)
        else found == value
    )


def test_random_generators_go_on() -> None:
    ours = random.Random(1), np.random.default_rng(2), torch.Generator().manual_seed(3), np.random.RandomState(4)
    theirs = decode(through_json(encode(ours)))
    assert theirs[0].random() == ours[0].random()
    assert theirs[1].random() == ours[1].random()
    assert torch.equal(torch.rand(2, generator=theirs[2]), torch.rand(2, generator=ours[2]))
    assert theirs[3].rand() == ours[3].rand()


def test_numbers_lie_in_memory_as_they_did_because_sums_depend_on_it() -> None:
    turned = np.arange(24.0).reshape(2, 3, 4).transpose(1, 2, 0)
    assert decode(through_json(encode(turned))).strides == turned.strides


def test_what_cannot_change_is_written_once_and_shared_again() -> None:
    weights = np.arange(1000.0)
    weights.flags.writeable = False
    encoded = encode([weights, {"again": weights}])
    assert len(encoded.arrays) == 1
    first, second = decode(encoded)
    assert first is second["again"]


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (lambda: 1, "a builtins.function"),
        (open, "builtin_function_or_method"),
        (np.array([object()]), "an array of object"),
        (iter([1]), "list_iterator"),
    ],
)
def test_what_is_no_data_is_named(value: object, named: str) -> None:
    with pytest.raises(CheckpointError, match=named):
        encode({"a": [value]})


def test_classes_inside_functions_are_refused_when_they_are_written() -> None:
    @dataclass
    class Local:
        number: int = 1

    with pytest.raises(CheckpointError, match="whose class is not at the top of its module"):
        encode(Local())
    cycle: list[object] = []
    cycle.append(cycle)
    with pytest.raises(CheckpointError, match="contains itself"):
        encode(cycle)


@pytest.mark.parametrize(
    "tree",
    [
        {"$": "data", "c": "subprocess:Popen", "v": {"args": "true"}},
        {"$": "named", "c": "builtins:tuple", "v": []},
        {"$": "own", "c": "os:PathLike", "v": 1},
        {"$": "enum", "c": "tests.unit.test_checkpoint:Data", "v": "RED"},
        {"$": "data", "c": "no_such_module:Thing", "v": {}},
        {"$": "generator", "v": [{"bit_generator": "seed"}]},
        {"$": "tensor", "a": 0, "dtype": "compile", "shape": []},
        {"$": "array", "a": 0, "w": True, "dtype": "|O", "shape": []},
        {"$": "array", "a": 7, "w": True},
        {"$": "unheard"},
        {"$": "data", "c": "tests.unit.test_checkpoint:Data", "v": {"other": 1}},
    ],
    ids=str,
)
def test_trees_that_nobody_has_written_are_refused(tree: object) -> None:
    with pytest.raises(CheckpointError):
        decode(Encoded(tree, [np.zeros(8, np.uint8)]))


def test_nothing_is_executed_to_read() -> None:
    made = encode(Data((1.0,)))
    CALLS.clear()
    decode(made)
    assert CALLS == []


# --------------------------------------------------------------------------- folders


class Counts(Stateful[int, int, int]):
    def init(self) -> int:
        return 0

    def step(self, state: int, item: int) -> tuple[int, int]:
        return state + 1, state + item


def plan() -> Iter[int]:
    return from_range(20).for_each(Counts()).batch(2).map(sum)


def saved(folder: Path, items: int = 3) -> list[int]:
    """Saves after so many items, and returns those that follow."""
    run = plan().run()
    for _ in range(items):
        next(run)
    run.save(folder)
    return list(run)


def test_a_folder_is_readable_without_tflow(tmp_path: Path) -> None:
    run = from_range(4).map(np.arange).batch(9).run()
    run._started().poll()
    run.save(tmp_path / "saved")
    manifest = json.loads((tmp_path / "saved" / MANIFEST).read_text())
    assert manifest["format"] == FORMAT
    assert manifest["files"].keys() == {STATE, ARRAYS}
    assert json.loads((tmp_path / "saved" / STATE).read_text())["seed"] == 0
    assert {name: array.shape for name, array in load_file(tmp_path / "saved" / ARRAYS).items()}
    assert not any(b"pickle" in path.read_bytes() for path in (tmp_path / "saved").iterdir())


class Killed(BaseException):
    """Stands for a process that ends here."""


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), Killed()], ids=["disk full", "killed"])
def test_a_save_that_fails_at_any_step_leaves_the_one_before(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every call that changes the disk fails once: the first, the second, and so on, until none is left."""
    folder = tmp_path / "saved"
    expected = saved(folder)
    failed = 0
    for at in range(100):
        run, count = plan().run(), [0]
        for _ in range(5):
            next(run)

        def guarded(
            name: str, owner: Any, real: Callable[..., Any], at: int = at, count: list[int] = count
        ) -> None:  # Any: any call
            def call(*args: Any, **options: Any) -> Any:  # Any: as above
                count[0] += 1
                if count[0] - 1 == at:
                    raise error
                return real(*args, **options)

            monkeypatch.setattr(owner, name, call)

        for name, owner in (("fsync", os), ("mkdir", Path), ("rename", Path), ("_write", folders)):
            guarded(name, owner, getattr(owner, name))
        try:
            run.save(folder)
        except (CheckpointError, Killed):
            failed += 1
        else:
            break
        finally:
            monkeypatch.undo()
        there = checkpoints_in(tmp_path)
        assert there, "there is always a whole one"
        assert list(plan().run(resume=there[0])) in (expected, expected[2:])
    assert failed >= 6
    assert list(plan().run(resume=folder)) == expected[2:]
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]


@given(at=st.integers(0, 10**9), bit=st.integers(0, 7), which=st.sampled_from([STATE, ARRAYS, MANIFEST]), cut=st.booleans())
def test_what_is_altered_or_cut_is_refused(at: int, bit: int, which: str, cut: bool) -> None:
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "saved"
        expected = saved(folder)
        content = bytearray((folder / which).read_bytes())
        place = at % len(content)
        if cut:
            content = content[:place]
        else:
            content[place] ^= 1 << bit
        (folder / which).write_bytes(content)
        try:
            found = list(plan().run(resume=folder))
        except CheckpointError:
            return
        assert which == MANIFEST, "only a word of the manifest that nobody reads may change"
        assert found == expected


def test_what_is_newer_or_of_another_plan_is_refused(tmp_path: Path) -> None:
    saved(tmp_path / "saved")
    with pytest.raises(CheckpointError, match="is of another plan"):
        from_range(20).run(resume=tmp_path / "saved")
    manifest = json.loads((tmp_path / "saved" / MANIFEST).read_text())
    (tmp_path / "saved" / MANIFEST).write_text(json.dumps({**manifest, "format": FORMAT + 1}))
    with pytest.raises(CheckpointError, match=f"has format {FORMAT + 1}, and this version of tflow reads up to {FORMAT}"):
        plan().run(resume=tmp_path / "saved")
    with pytest.raises(CheckpointError, match="there is no such folder"):
        plan().run(resume=tmp_path / "nowhere")


def test_a_pickle_is_not_opened(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, ...]:
            return os.mkdir, (str(tmp_path / "executed"),)

    saved(tmp_path / "saved")
    for name in (STATE, ARRAYS, MANIFEST):
        shutil.copytree(tmp_path / "saved", tmp_path / "evil", dirs_exist_ok=True)
        (tmp_path / "evil" / name).write_bytes(pickle.dumps(Evil()))
        with pytest.raises(CheckpointError):
            plan().run(resume=tmp_path / "evil")
    assert not (tmp_path / "executed").exists()


def test_the_newest_that_is_whole_is_taken(tmp_path: Path) -> None:
    for number in range(3):
        saved(tmp_path / "checkpoints" / f"{number:03d}", items=number)
    shutil.copytree(tmp_path / "checkpoints" / "002", tmp_path / "checkpoints" / f"003{ASIDE}")  # a save that was cut off
    (tmp_path / "checkpoints" / "002" / STATE).write_bytes(b"{}")
    said: list[str] = []
    assert checkpoint_in(tmp_path, said.append) == tmp_path / "checkpoints" / "001"
    assert "002 is damaged: state.json is not what was written" in said[0]
    assert "001" in said[0]


# --------------------------------------------------------------------------- large arrays, in pages


class Rows:
    """An actor with a large array, some rows of which change with every item."""

    def __init__(self, shard: Shard) -> None:
        self.rows = np.arange(40_000, dtype=np.int32).reshape(-1, 4) + 1_000 * shard.index
        self.at = 0

    def change(self) -> int:
        self.rows[self.at : self.at + 3] += 1
        self.at += 3
        return int(self.rows.sum())


def changing() -> Iter[int]:
    return from_actors(create_actors(Rows, num=2), Rows.change).gather_sync().take(12)


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "PAGE_BYTES", 4_096)


@pytest.mark.usefixtures("small_pages")
def test_pages_that_have_not_changed_are_linked_and_not_written_again(tmp_path: Path) -> None:
    with changing().run() as run:
        list(islice(run, 2))
        run.save(tmp_path / "a")
        list(islice(run, 2))
        run.save(tmp_path / "b")
        expected = list(run)
    pages = {path.name: path for path in (tmp_path / "a").glob("*-*-*-*.safetensors")}
    again = {path.name: path for path in (tmp_path / "b").glob("*-*-*-*.safetensors")}
    assert len(pages) == len(again) == 2 * -(-160_000 // 4_096)
    written = [name for name, path in again.items() if path.stat().st_nlink == 1]
    assert len(written) == 2, "each actor has changed one page"
    assert all(again[name].samefile(pages[name]) for name in again.keys() & pages.keys())
    shutil.rmtree(tmp_path / "a")  # what is linked stays
    with changing().run(resume=tmp_path / "b") as run:
        assert list(run) == expected


@pytest.mark.usefixtures("small_pages")
def test_a_resumed_run_links_the_pages_of_the_checkpoint_that_it_was_resumed_from(tmp_path: Path) -> None:
    with changing().run() as run:
        next(run)
        run.save(tmp_path / "a")
    with changing().run(resume=tmp_path / "a") as run:
        next(run)
        run.save(tmp_path / "b")
        run.save(tmp_path / "b")  # over itself
    assert sum(path.stat().st_nlink == 2 for path in (tmp_path / "b").iterdir()) > 60
    with changing().run(resume=tmp_path / "b") as run:
        assert len(list(run)) == 10


@pytest.mark.usefixtures("small_pages")
def test_pages_are_written_where_links_are_not_to_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    with changing().run() as run:
        next(run)
        run.save(tmp_path / "a")
        run.save(tmp_path / "b")
        expected = list(run)
    shutil.rmtree(tmp_path / "a")
    assert list(changing().run(resume=tmp_path / "b")) == expected


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("harm", ["altered", "cut", "removed", "unnamed", "too large"])
def test_a_checkpoint_with_a_damaged_page_is_refused(harm: str, tmp_path: Path) -> None:
    with changing().run() as run:
        next(run)
        run.save(tmp_path / "saved")
    page = next((tmp_path / "saved").glob("*-*-*-*.safetensors"))
    content, manifest = page.read_bytes(), json.loads((tmp_path / "saved" / MANIFEST).read_text())
    (parts,) = [facts["pages"] for name, facts in manifest["files"].items() if page.name.startswith(f"{Path(name).stem}-")]
    (array,) = parts.values()
    if harm == "removed":
        page.unlink()
    elif harm == "unnamed":
        array["files"].remove(page.name)
    elif harm == "too large":
        array["shape"] = [10**15, 4]
    else:
        page.write_bytes(content[:-1] if harm == "cut" else content[:-1] + bytes([content[-1] ^ 1]))
    (tmp_path / "saved" / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError, match=r"damaged|cannot be read"):
        changing().run(resume=tmp_path / "saved")


@pytest.mark.usefixtures("small_pages")
def test_a_page_that_was_cut_off_is_not_linked(tmp_path: Path) -> None:
    with changing().run() as run:
        next(run)
        run.save(tmp_path / "a")
        page = next((tmp_path / "a").glob("*-*-*-*.safetensors"))
        page.write_bytes(page.read_bytes()[:100])
        run.save(tmp_path / "b")
        expected = list(run)
    assert list(changing().run(resume=tmp_path / "b")) == expected


ODD: tuple[object, ...] = (
    None,
    -1,
    1.5,
    "x",
    [],
    {},
    {"$": "fraction", "v": [1, 0]},
    {"$": "tensor", "a": 0, "dtype": "load", "shape": [1]},
)


def rewritten(folder: Path, state: object) -> None:
    """Put another state into a checkpoint, with a hash that is right."""
    text = json.dumps(state).encode()
    (folder / STATE).write_bytes(text)
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["files"][STATE] = {"sha256": hashlib.sha256(text).hexdigest(), "bytes": len(text)}
    manifest.pop(OWN_HASH, None)
    (folder / MANIFEST).write_text(json.dumps(manifest))


def test_a_checkpoint_in_which_something_else_stands_or_nothing_is_a_sentence(tmp_path: Path) -> None:
    with changing().run() as run:
        next(run)
        run.save(tmp_path / "saved")
    whole = json.loads((tmp_path / "saved" / STATE).read_text())
    for name in whole.keys() - {"kept", "residents", "given", "fuse", "seed", "session_seed"}:
        for odd in (*ODD[:4], "gone"):
            changed = {key: odd if key == name else each for key, each in whole.items() if (key, odd) != (name, "gone")}
            rewritten(tmp_path / "saved", changed)
            with pytest.raises(CheckpointError, match=r"^The checkpoint "):
                list(changing().run(resume=tmp_path / "saved"))
    for odd in ODD[6:]:
        rewritten(tmp_path / "saved", {**whole, "driver": {**whole["driver"], "random": odd}, "random": odd})
        with pytest.raises(CheckpointError, match=r"^The checkpoint "):
            list(changing().run(resume=tmp_path / "saved"))


def test_a_manifest_that_was_altered_is_refused(tmp_path: Path) -> None:
    with changing().run() as run:
        next(run)
        run.save(tmp_path / "saved", {"env_steps": 100})
    manifest = tmp_path / "saved" / MANIFEST
    manifest.write_text(manifest.read_text().replace("100", "900"))
    with pytest.raises(CheckpointError, match=r"saved is damaged: manifest.json is not what was written\.$"):
        changing().run(resume=tmp_path / "saved")


# --------------------------------------------------------------------------- what cannot be saved


class Handle:
    """An actor with something in it that is no data."""

    def __init__(self) -> None:
        self.file = open(os.devnull)  # noqa: SIM115  # that is the point

    def one(self) -> int:
        return 1

    def close(self) -> None:
        self.file.close()


class Sends(LiveOp[int, int]):
    """Sends a message that nobody could find again."""

    def __init__(self, workers: Actors[Counter_]) -> None:
        self.workers = workers

    def apply(self, live: Live, item: int) -> int:
        live[self.workers].update(lambda actor, value: None, item)
        return item


def make_handle(shard: Shard) -> Handle:
    return Handle()


def test_the_sentence_names_the_operator_or_the_shard(tmp_path: Path) -> None:
    run = from_range(3).map(lambda n: (n, iter([n]))).batch(5).run()
    run._started().poll()
    with pytest.raises(CheckpointError, match=r"batch\(5\) cannot be saved: its state holds a builtins.list_iterator"):
        run.save(tmp_path / "saved")
    assert not list(tmp_path.iterdir())
    workers = create_actors(make_handle, num=1, name="handles")
    with from_actors(workers, Handle.one).gather_sync().run() as other:
        next(other)
        with pytest.raises(CheckpointError, match=r"handles\[0\] cannot be saved: its state holds a _io.TextIOWrapper"):
            other.save(tmp_path / "saved")
        assert next(other) == 1, "the run goes on"


class Endless(Stateful[int, int, object]):
    def init(self) -> object:
        return iter([])

    def step(self, state: object, item: int) -> tuple[object, int]:
        return state, item


class OneWay:
    def __init__(self, shard: Shard) -> None:
        self.n = 0

    def state(self) -> int:
        return self.n

    def next(self) -> int:
        return self.n


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        (from_range(3).for_each(Endless()), r"for_each\(Endless\) cannot be saved: its state holds a builtins.list_iterator"),
        (from_range(3).scan(lambda state, item: state, [iter([])]), "cannot be saved: its state holds a builtins.list_iterator"),
        (
            from_actors(create_actors(OneWay, num=1, name="ways"), OneWay.next).gather_sync(),
            r"ways cannot be saved: OneWay has state\(\) and no load\(\)",
        ),
    ],
)
def test_what_can_be_known_before_is_said_before(stream: Iter[object], said: str) -> None:
    stream.validate()
    with pytest.raises(PlanError, match=said):
        stream.validate(saving=True)
    plan().validate(saving=True)


def test_messages_are_saved_by_the_name_of_what_they_call(tmp_path: Path) -> None:
    workers = create_actors(make_counter, num=1)
    with from_actors(workers, Counter_.next).gather_sync().for_each(Sends(workers)).run() as run:
        next(run)
        with pytest.raises(CheckpointError, match=r"A message that calls .*lambda.* cannot be saved"):
            run.save(tmp_path / "saved")


def test_actors_that_live_in_the_session_are_not_written_over(tmp_path: Path) -> None:
    from tflow import LocalRuntime

    def counters() -> Iter[int]:
        return from_actors(create_actors(make_counter, num=1, name="counters"), Counter_.next).gather_sync().take(3)

    with LocalRuntime() as session:
        run = counters().run(runtime=session)
        next(run)
        run.save(tmp_path / "saved")
        with pytest.raises(PlanError, match="live in this session since an earlier run"):
            list(counters().run(runtime=session, resume=tmp_path / "saved"))


class Counter_:
    def __init__(self) -> None:
        self.n = 0

    def next(self) -> int:
        self.n += 1
        return self.n


def make_counter(shard: Shard) -> Counter_:
    return Counter_()


def test_read_gives_what_was_written(tmp_path: Path) -> None:
    saved(tmp_path / "saved")
    manifest, encoded = read(tmp_path / "saved")
    assert manifest["plan"] == plan().fingerprint
    assert len(encoded.tree["cells"]) == len(plan().run()._started().site.cells)


# --------------------------------------------------------------------------- odd moments and odd values


class Rights(Flag):
    READ = auto()
    WRITE = auto()


def test_flags_that_stand_together_come_back() -> None:
    for value in (Rights.READ, Rights.READ | Rights.WRITE, Rights(0)):
        assert decode(through_json(encode(value))) == value


def test_what_would_come_back_as_something_else_is_refused() -> None:
    for value in (np.ma.masked_array([1, 2], [True, False]), torch.nn.Parameter(torch.ones(2)), torch.ones(2).to_sparse()):
        with pytest.raises(CheckpointError, match="cannot be saved"):
            encode(value)


def drawn(number: int) -> Iterator[float]:
    for _ in range(3):
        yield number + random.random()


@pytest.mark.parametrize("items", range(7))
def test_generators_that_draw_are_read_ahead_before_random_numbers_are_saved(items: int, tmp_path: Path) -> None:
    def fresh() -> Iter[float]:
        return from_range(6).flat_map(drawn)

    random.seed(1)
    expected = list(fresh().run())
    random.seed(1)
    run = fresh().run()
    before = [next(run) for _ in range(items)]
    run.save(tmp_path / "saved")
    assert before + list(fresh().run(resume=tmp_path / "saved")) == expected


@pytest.mark.parametrize(("first", "then"), [(1, 3), (3, 1)])
@pytest.mark.parametrize("gather", ["gather_sync", "gather_async"])
def test_a_pool_that_was_resized_just_before(first: int, then: int, gather: str, tmp_path: Path) -> None:
    def counting() -> tuple[Actors[Counter_], Iter[int]]:
        workers = create_actors(make_counter, num=first, name="counters")
        stream: Iter[int] = getattr(from_actors(workers, Counter_.next), gather)()
        return workers, stream

    workers, stream = counting()
    with stream.run() as run:
        for _ in range(4):
            next(run)
        run.resize(workers, then)
        run.save(tmp_path / "saved")
        after = [next(run) for _ in range(9)]
    with counting()[1].run(resume=tmp_path / "saved") as run:
        assert [next(run) for _ in range(9)] == after


def test_an_operator_cannot_save_the_run_that_it_is_in(tmp_path: Path) -> None:
    runs: list[Run[int]] = []

    def save(number: int) -> int:
        if number == 2:
            runs[0].save(tmp_path / "saved")
        return number

    runs.append(from_range(5).map(save).run())
    with pytest.raises(OperatorError, match="A run is saved between two items, not by its own operators"):
        list(runs[0])


def test_values_that_an_actor_only_holds_are_not_written() -> None:
    stream = par_from_iterables([lambda: iter([1, 2, 3]), lambda: iter([4, 5, 6])]).gather_sync()
    with stream.run() as run:
        before = [next(run), next(run), next(run)]
        saved = run.snapshot()
    assert before + list(stream.run(resume=saved)) == [1, 4, 2, 5, 3, 6]


class Refuses(Counter_):
    def state(self) -> int:
        raise ValueError("not now")

    def load(self, state: int) -> None:
        return


def make_refusing(shard: Shard) -> Refuses:
    return Refuses()


def test_a_state_that_cannot_be_had_is_a_sentence(tmp_path: Path) -> None:
    with from_actors(create_actors(make_refusing, num=1), Counter_.next).gather_sync().run() as run:
        next(run)
        with pytest.raises(CheckpointError, match=r"Refuses.state\(\) raised ValueError: not now"):
            run.save(tmp_path / "saved")
        assert next(run) == 2
