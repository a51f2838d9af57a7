"""State as data: what a checkpoint is made of, and how values become it.

Everything that changes during a run can say its state and take one back: ``state()`` and ``load(state)``. A state is a tree of
plain values, arrays, random generators, enums, named tuples, dataclasses, and of whatever a class of its own turns into such
a tree (``state`` and the class method ``from_state``). ``encode`` writes a tree as JSON with its arrays beside it; ``decode``
reads it back, equal and of the same types.

Decoding executes nothing of what it reads: classes are only those that are loaded already and are data by their kind, and they
are filled without a call of their constructors.
"""

from __future__ import annotations

import math
import random
import sys
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum, Flag
from fractions import Fraction
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeGuard, cast

import numpy as np
from numpy.typing import NDArray

from tflow.errors import CheckpointError

if TYPE_CHECKING:
    import torch

Json: TypeAlias = Any  # Any: what JSON can hold
Array: TypeAlias = NDArray[Any]  # Any: whatever its numbers
TAG = "$"
"""Marks an object of the JSON that stands for something else than a dictionary with names."""
STORED_KINDS = "biufcSUMm"
"""Kinds of arrays that are plain memory."""
PLAIN_TYPES = frozenset(
    ("bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)), "float16", "float32", "float64")
)
"""Types that files of arrays know; others are stored as bytes."""
ADVICE = (
    "Plain values, arrays, random generators, enums, named tuples and dataclasses can be saved, if their classes are defined at "
    "the top of a module; anything else says what it is made of by state() and load()."
)


class HasState(Protocol):
    """Something that changes, and can be stopped and continued: actors, envs, networks, learners, buffers."""

    def state(self) -> object:
        """All that a twin, made by the same constructor with the same arguments, needs to go on as this one would."""
        ...

    def load(self, state: Any, /) -> None:  # Any: what state() gave
        """Take a state over."""


@dataclass(frozen=True)
class Encoded:
    """A value as JSON, and the arrays that it refers to by number."""

    tree: Json
    arrays: list[Array]
    files: Mapping[str, list[Array]] = field(default_factory=dict)
    """Arrays of parts that were written to files of their own, by the names of these."""

    def copied(self) -> Encoded:
        """The same with arrays of its own: those of the value may change."""
        return Encoded(self.tree, [array.copy() for array in self.arrays], self.files)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(array.nbytes for array in self.arrays)


def encode(value: object) -> Encoded:
    """A value as data. Raises ``CheckpointError`` if there is something in it that is none.

    Law: ``decode(encode(value))`` equals ``value``, has the same types everywhere, and shares no memory that can change.
    """
    encoder = StateEncoder()
    return Encoded(encoder.part("The value", value), encoder.arrays)


def encode_or_none(value: object) -> Encoded | None:
    """A value as data; None if there is something in it that is none."""
    try:
        return encode(value)
    except CheckpointError:
        return None


def has_state(owner: object) -> TypeGuard[HasState]:
    """True if something says its state itself; an env may have an attribute of that name."""
    return callable(getattr(owner, "state", None)) and callable(getattr(owner, "load", None))


def decode(encoded: Encoded) -> Any:  # Any: whatever was encoded
    """The value again."""
    try:
        return _Decoder(encoded.arrays, encoded.files).value(encoded.tree)
    except CheckpointError:
        raise
    except Exception as error:  # of constructors of data, which are given anything
        raise CheckpointError(f"The checkpoint is damaged: {type(error).__name__}: {error}.") from error


def state_of(owner: object) -> object:
    """The state of something that changes: what it says itself, else its attributes, if they are data."""
    if has_state(owner):
        try:
            return owner.state()
        except CheckpointError:
            raise
        except Exception as error:
            raise CheckpointError(f"{type(owner).__name__}.state() raised {type(error).__name__}: {error}.") from error
    if isinstance(owner, CONTAINERS):
        return owner
    return {name: getattr(owner, name) for name in _slots(owner) if hasattr(owner, name)} | dict(getattr(owner, "__dict__", {}))


def load_into(owner: object, state: Any) -> None:  # Any: what state_of gave
    """Give a twin the state of another."""
    if has_state(owner):
        try:
            owner.load(state)
        except CheckpointError:
            raise
        except Exception as error:
            raise CheckpointError(f"{type(owner).__name__}.load() raised {type(error).__name__}: {error}.") from error
    elif isinstance(owner, np.ndarray):
        owner[...] = state
    elif isinstance(owner, (list, bytearray)):
        owner[:] = state
    elif isinstance(owner, deque):
        owner.clear()
        owner.extend(state)
    elif isinstance(owner, (dict, set)):
        owner.clear()
        owner.update(state)
    else:
        for name in [name for name in getattr(owner, "__dict__", {}) if name not in state]:
            delattr(owner, name)
        for name, value in state.items():
            object.__setattr__(owner, name, value)


def random_numbers() -> dict[str, object]:
    """The state of the random numbers of this process that belong to nobody."""
    found: dict[str, object] = {"python": random.getstate(), "numpy": np.random.get_state(legacy=False)}  # users may
    if "torch" in sys.modules:
        found["torch"] = sys.modules["torch"].get_rng_state()
    return found


def load_random_numbers(state: dict[str, Any]) -> None:  # Any: what random_numbers gave
    """Go on with them."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])  # as above
    if "torch" in state:
        import torch

        torch.set_rng_state(state["torch"])


CONTAINERS = (list, dict, set, deque, bytearray, np.ndarray)
"""What can be an actor without a class of its own."""


def _slots(owner: object) -> list[str]:
    found = [kind.__dict__.get("__slots__", ()) for kind in type(owner).__mro__]
    return [name for each in found for name in ((each,) if isinstance(each, str) else each) if not name.startswith("__")]


# --------------------------------------------------------------------------- values to data


class NoData(Exception):
    """There is something in a value that is no data."""


class StateEncoder:
    """Encodes several values into one file, with their arrays together."""

    def __init__(self) -> None:
        self.arrays: list[Array] = []
        self.numbers: dict[int, int] = {}
        """The number of each array that was met, by identity: weights that many hold are written once."""
        self.kept: list[object] = []
        """What was met, so that no identity is used twice."""

    def part(self, owner: str, value: object) -> Json:
        """The JSON of a value; an error names whose it is."""
        try:
            return self.tree(value)
        except NoData as found:
            raise CheckpointError(f"{owner} cannot be saved: its state holds {found}. {ADVICE}") from None
        except RecursionError:
            raise CheckpointError(f"{owner} cannot be saved: its state contains itself, or is nested too deeply.") from None

    def embedded(self, encoded: Encoded) -> Json:
        """The JSON of what was encoded elsewhere, whose arrays join these."""
        first = len(self.arrays)
        self.arrays += encoded.arrays
        return {TAG: "part", "first": first, "count": len(encoded.arrays), "v": encoded.tree}

    @staticmethod
    def elsewhere(tree: Json, file: str) -> Json:
        """The JSON of what was encoded elsewhere, whose arrays are in a file of their own."""
        return {TAG: "part", "file": file, "v": tree}

    def tree(self, value: object) -> Json:
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            number = cast("float", value)
            return number if math.isfinite(number) else {TAG: "float", "v": repr(number)}
        if kind is list:
            return [self.tree(each) for each in cast("list[object]", value)]
        if kind is dict:
            return self.mapping(cast("dict[object, object]", value))
        writer = WRITERS.get(kind)
        if writer is not None:
            return writer(self, value)
        return self.other(value)

    def mapping(self, value: Mapping[object, object]) -> Json:
        if all(type(key) is str for key in value) and TAG not in value:
            return {cast("str", key): self.tree(each) for key, each in value.items()}
        return {TAG: "dict", "v": [[self.tree(key), self.tree(each)] for key, each in value.items()]}

    def tagged(self, name: str, *values: object) -> Json:
        return {TAG: name, "v": [self.tree(each) for each in values]}

    def other(self, value: object) -> Json:
        kind = type(value)
        if kind is np.ndarray:
            return self.array(cast("Array", value))
        if isinstance(value, np.generic):
            return {TAG: "scalar", "v": self.array(np.asarray(value))}
        if isinstance(value, Enum):
            if isinstance(value, Flag):  # several together have no name of their own
                return {TAG: "flag", "c": name_of(kind), "v": self.tree(value.value)}
            return {TAG: "enum", "c": name_of(kind), "v": value.name}
        if isinstance(value, tuple) and hasattr(kind, "_fields"):
            return {TAG: "named", "c": name_of(kind), "v": [self.tree(each) for each in value]}
        if callable(getattr(kind, "from_state", None)) and callable(getattr(value, "state", None)):
            return {TAG: "own", "c": name_of(kind), "v": self.tree(value.state())}  # type: ignore[attr-defined]  # seen above
        if is_dataclass(value) and kind.__new__ is object.__new__:
            return {TAG: "data", "c": name_of(kind), "v": self.mapping(attributes(value))}
        if str(getattr(kind, "__module__", "")).partition(".")[0] == "torch":
            return self.of_torch(value)
        if isinstance(value, np.random.Generator):
            return self.tagged("generator", value.bit_generator.state)
        if isinstance(value, np.random.RandomState):
            return self.tagged("random_state", value.get_state(legacy=False))
        if isinstance(value, random.Random) and kind is random.Random:
            return self.tagged("random", value.getstate())
        raise NoData(f"a {getattr(kind, '__module__', '')}.{kind.__qualname__}")

    def array(self, value: Array) -> Json:
        if value.dtype.kind not in STORED_KINDS:
            raise NoData(f"an array of {value.dtype}")
        tree: dict[str, Json] = {TAG: "array", "a": self.number(value), "w": bool(value.flags.writeable)}
        if not value.flags.c_contiguous and value.size:  # sums depend on how numbers lie in memory
            tree["axes"] = sorted(range(value.ndim), key=lambda axis: -abs(value.strides[axis]))
        return tree if is_plain(value.dtype) else {**tree, "dtype": value.dtype.str, "shape": list(value.shape)}

    def number(self, value: Array) -> int:
        found = self.numbers.get(id(value))
        if found is None:
            found = self.numbers[id(value)] = len(self.arrays)
            self.kept.append(value)
            stored = np.ascontiguousarray(value).reshape(value.shape)
            self.arrays.append(stored if is_plain(value.dtype) else stored.reshape(-1).view(np.uint8))
        return found

    def of_torch(self, value: object) -> Json:
        import torch

        if isinstance(value, torch.Generator):
            return {TAG: "torch_generator", "a": self.number(value.get_state().numpy())}
        if isinstance(value, torch.Size):
            return self.tagged("size", *value)
        if type(value) is not torch.Tensor or value.layout != torch.strided or value.requires_grad:
            raise NoData(f"a {type(value).__module__}.{type(value).__qualname__}")
        plain, dtype = value.detach().cpu().contiguous(), str(value.dtype).removeprefix("torch.")
        if dtype in PLAIN_TYPES:
            return {TAG: "tensor", "a": self.number(plain.numpy())}
        memory = plain.reshape(-1).view(torch.uint8).numpy() if plain.numel() else np.empty(0, np.uint8)
        return {TAG: "tensor", "a": self.number(memory), "dtype": dtype, "shape": list(plain.shape)}


Writer: TypeAlias = Callable[[StateEncoder, Any], Json]  # Any: each writes the one kind that it stands behind
WRITERS: dict[type, Writer] = {
    tuple: lambda encoder, value: encoder.tagged("tuple", *value),
    set: lambda encoder, value: encoder.tagged("set", *value),
    frozenset: lambda encoder, value: encoder.tagged("frozenset", *value),
    deque: lambda encoder, value: encoder.tagged("deque", value.maxlen, *value),
    Counter: lambda encoder, value: encoder.tagged("counter", dict(value)),
    OrderedDict: lambda encoder, value: encoder.tagged("ordered", dict(value)),
    MappingProxyType: lambda encoder, value: encoder.tagged("proxy", dict(value)),
    bytes: lambda encoder, value: {TAG: "bytes", "a": encoder.number(np.frombuffer(value, np.uint8))},
    bytearray: lambda encoder, value: {TAG: "bytearray", "a": encoder.number(np.frombuffer(bytes(value), np.uint8))},
    complex: lambda encoder, value: encoder.tagged("complex", value.real, value.imag),
    Fraction: lambda encoder, value: encoder.tagged("fraction", value.numerator, value.denominator),
    range: lambda encoder, value: encoder.tagged("range", value.start, value.stop, value.step),
    slice: lambda encoder, value: encoder.tagged("slice", value.start, value.stop, value.step),
}


def attributes(value: Any) -> dict[object, object]:  # Any: an instance of a dataclass
    """What an instance of a dataclass holds: its fields, and what it has beside them."""
    held = {field.name: getattr(value, field.name) for field in fields(value) if hasattr(value, field.name)}
    return {**held, **getattr(value, "__dict__", {})}


def is_plain(dtype: np.dtype[Any]) -> bool:  # Any: of whatever numbers
    """True if files of arrays know this type."""
    return dtype.name in PLAIN_TYPES and dtype.isnative


def name_of(kind: type) -> str:
    """How a class is called in files."""
    if _inside(sys.modules.get(kind.__module__), kind.__qualname__) is not kind:
        raise NoData(f"a {kind.__qualname__}, whose class is not at the top of its module")
    return f"{kind.__module__}:{kind.__qualname__}"


# --------------------------------------------------------------------------- data to values


class _Decoder:
    def __init__(self, arrays: list[Array], files: Mapping[str, list[Array]]) -> None:
        self.arrays, self.files = arrays, files
        self.made: dict[int, Array] = {}
        """Arrays that cannot change, shared as they were when they were written."""

    def value(self, tree: Json) -> Any:  # Any: whatever it stands for
        if isinstance(tree, list):
            return [self.value(each) for each in tree]
        if not isinstance(tree, dict):
            return tree
        if TAG not in tree:
            return {key: self.value(each) for key, each in tree.items()}
        reader = READERS.get(tree[TAG])
        if reader is None:
            raise CheckpointError(f"The checkpoint holds a {tree[TAG]!r}, which this version does not know.")
        return reader(self, tree)

    def array(self, tree: Json) -> Array:
        number = tree["a"]
        if tree["w"] or number not in self.made:
            # Always a copy: torch sums up in another order where memory is not aligned, as that of a file may be.
            plain, axes = self.plain(tree), tree.get("axes")
            found: Array = plain.copy() if axes is None else plain.transpose(axes).copy().transpose(np.argsort(axes))
            if tree["w"]:
                return found
            self.made[number] = found
            found.flags.writeable = False
        return self.made[number]

    def plain(self, tree: Json) -> Array:
        memory: Array = self.arrays[tree["a"]]
        if "dtype" not in tree:
            return memory
        dtype = np.dtype(str(tree["dtype"]))
        if dtype.kind not in STORED_KINDS or dtype.hasobject:
            raise CheckpointError(f"The checkpoint holds an array of {dtype}.")
        return cast("Array", memory.view(dtype).reshape(tree["shape"]) if memory.size else np.empty(tree["shape"], dtype))

    def tensor(self, tree: Json) -> torch.Tensor:
        import torch

        if "dtype" not in tree:
            return torch.from_numpy(np.array(self.arrays[tree["a"]]))
        dtype = getattr(torch, str(tree["dtype"]))
        if not isinstance(dtype, torch.dtype):
            raise CheckpointError(f"The checkpoint holds a tensor of {tree['dtype']}.")
        memory = torch.from_numpy(self.arrays[tree["a"]].copy())
        return memory.view(dtype).reshape(tree["shape"]) if memory.numel() else torch.empty(tree["shape"], dtype=dtype)

    def arrays_of_part(self, tree: Json) -> list[Array]:
        return self.files[tree["file"]] if "file" in tree else self.arrays[tree["first"] : tree["first"] + tree["count"]]

    def members(self, tree: Json) -> list[Any]:  # Any: whatever they are
        return [self.value(each) for each in tree["v"]]


def _float(decoder: _Decoder, tree: Json) -> float:
    return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[tree["v"]]


def _dict(decoder: _Decoder, tree: Json) -> dict[Any, Any]:  # Any: whatever they are
    return {decoder.value(key): decoder.value(each) for key, each in tree["v"]}


def _deque(decoder: _Decoder, tree: Json) -> deque[object]:
    most, *members = decoder.members(tree)
    return deque(members, most)


def _generator(decoder: _Decoder, tree: Json) -> np.random.Generator:
    (state,) = decoder.members(tree)
    made = getattr(np.random, str(state["bit_generator"]))
    if not (isinstance(made, type) and issubclass(made, np.random.BitGenerator)):
        raise CheckpointError(f"The checkpoint holds a random generator {state['bit_generator']}")
    bits = made(0)
    bits.state = state
    return np.random.Generator(bits)


def _random_state(decoder: _Decoder, tree: Json) -> np.random.RandomState:
    made = np.random.RandomState()
    made.set_state(decoder.members(tree)[0])
    return made


def _random(decoder: _Decoder, tree: Json) -> random.Random:
    made = random.Random()  # the user's generator, with its state
    made.setstate(decoder.members(tree)[0])
    return made


def _torch_generator(decoder: _Decoder, tree: Json) -> torch.Generator:
    import torch

    return torch.Generator().set_state(torch.from_numpy(decoder.arrays[tree["a"]].copy()))


def _size(decoder: _Decoder, tree: Json) -> torch.Size:
    import torch

    return torch.Size(decoder.members(tree))


def _enum(decoder: _Decoder, tree: Json) -> object:
    return class_called(tree["c"], lambda kind: issubclass(kind, Enum))[tree["v"]]


def _named(decoder: _Decoder, tree: Json) -> object:
    kind = class_called(tree["c"], lambda kind: issubclass(kind, tuple) and hasattr(kind, "_fields"))
    members = decoder.members(tree)
    if len(members) != len(kind._fields):
        raise CheckpointError(f"{tree['c']} has other fields now than when it was saved.")
    return tuple.__new__(kind, members)


def _data(decoder: _Decoder, tree: Json) -> object:
    kind = class_called(tree["c"], is_dataclass)
    held = decoder.value(tree["v"])
    missing = {field.name for field in fields(kind)} ^ {name for name in held if name in {f.name for f in fields(kind)}}
    if missing:
        raise CheckpointError(f"{tree['c']} has other fields now than when it was saved: {', '.join(sorted(missing))}.")
    made = object.__new__(kind)
    for name, value in held.items():
        object.__setattr__(made, name, value)
    return made


def _own(decoder: _Decoder, tree: Json) -> object:
    kind = class_called(tree["c"], lambda kind: callable(getattr(kind, "from_state", None)))
    return kind.from_state(decoder.value(tree["v"]))


Reader: TypeAlias = Callable[[_Decoder, Json], Any]  # Any: each reads the one kind that it stands behind
READERS: dict[str, Reader] = {
    "float": _float,
    "dict": _dict,
    "tuple": lambda decoder, tree: tuple(decoder.members(tree)),
    "set": lambda decoder, tree: set(decoder.members(tree)),
    "frozenset": lambda decoder, tree: frozenset(decoder.members(tree)),
    "deque": _deque,
    "counter": lambda decoder, tree: Counter(decoder.members(tree)[0]),
    "ordered": lambda decoder, tree: OrderedDict(decoder.members(tree)[0]),
    "proxy": lambda decoder, tree: MappingProxyType(decoder.members(tree)[0]),
    "bytes": lambda decoder, tree: decoder.arrays[tree["a"]].tobytes(),
    "bytearray": lambda decoder, tree: bytearray(decoder.arrays[tree["a"]].tobytes()),
    "complex": lambda decoder, tree: complex(*decoder.members(tree)),
    "fraction": lambda decoder, tree: Fraction(*decoder.members(tree)),
    "range": lambda decoder, tree: range(*decoder.members(tree)),
    "slice": lambda decoder, tree: slice(*decoder.members(tree)),
    "array": _Decoder.array,
    "scalar": lambda decoder, tree: decoder.array({**tree["v"], "w": True})[()],
    "tensor": _Decoder.tensor,
    "generator": _generator,
    "random_state": _random_state,
    "random": _random,
    "torch_generator": _torch_generator,
    "size": _size,
    "enum": _enum,
    "flag": lambda decoder, tree: class_called(tree["c"], lambda kind: issubclass(kind, Flag))(decoder.value(tree["v"])),
    "named": _named,
    "data": _data,
    "own": _own,
    "part": lambda decoder, tree: Encoded(tree["v"], decoder.arrays_of_part(tree)),
}


def class_called(name: str, is_data: Callable[[Any], bool]) -> Any:  # Any: a class, of the kind that was asked for
    """A class by the name that a file gives it. Nothing is imported for a file but parts of tflow; a class of a script is found
    whether the script is run or imported."""
    module, _, qualname = name.partition(":")
    if module.partition(".")[0] == "tflow" and module not in sys.modules:
        try:
            import_module(module)
        except ImportError:
            raise CheckpointError(f"The checkpoint holds a {name}, which this version does not have.") from None
    found = _inside(sys.modules.get(module), qualname)
    if found is None:
        others = {id(each): each for other in list(sys.modules.values()) if (each := _inside(other, qualname)) is not None}
        found = next(iter(others.values())) if len(others) == 1 else None
    if found is None or not is_data(found):
        raise CheckpointError(
            f"The checkpoint holds a {name}, which is not loaded, or is no longer a class of data. Import its module first."
        )
    return found


def _inside(module: object, qualname: str) -> type | None:
    found: object = module
    for part in qualname.split("."):
        found = vars(found).get(part) if hasattr(found, "__dict__") else None  # a module may import what it is asked for
    return found if isinstance(found, type) and found.__qualname__ == qualname else None
