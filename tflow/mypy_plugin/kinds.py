"""By type: what cannot be sent to an actor, nor copied."""

from __future__ import annotations

from mypy.nodes import CallExpr, Expression, FuncDef, OverloadedFuncDef, RefExpr, TypeAlias, TypeInfo, Var
from mypy.types import AnyType, CallableType, Instance, Overloaded, ProperType, TupleType, Type, UnionType, get_proper_type

KINDS = {
    "tflow.runtime.executor.Run": "a run",
    "tflow.live.Live": "a handle of the driver",
    "tflow.live.Handles": "a handle of the driver",
    "_thread.lock": "a lock",
    "_thread.LockType": "a lock",
    "_thread.RLock": "a lock",
    "threading.Lock": "a lock",
    "threading._RLock": "a lock",
    "threading.Condition": "a lock",
    "threading.Semaphore": "a lock",
    "threading.Event": "a lock",
    "threading.Barrier": "a lock",
    "multiprocessing.synchronize.SemLock": "a lock",
    "multiprocessing.synchronize.Condition": "a lock",
    "multiprocessing.synchronize.Event": "a lock",
    "multiprocessing.sharedctypes.SynchronizedBase": "a lock",
    "_thread._local": "thread-local data",
    "threading.local": "thread-local data",
    "_threading_local.local": "thread-local data",
    "threading.Thread": "a thread",
    "multiprocessing.process.BaseProcess": "a process",
    "subprocess.Popen": "a process",
    "queue.Queue": "a queue",
    "_queue.SimpleQueue": "a queue",
    "queue.SimpleQueue": "a queue",
    "multiprocessing.queues.Queue": "a queue",
    "multiprocessing.queues.SimpleQueue": "a queue",
    "concurrent.futures._base.Executor": "an executor",
    "multiprocessing.pool.Pool": "an executor",
    "concurrent.futures._base.Future": "a future",
    "asyncio.events.AbstractEventLoop": "an event loop",
    "sqlite3.Connection": "a connection to a database",
    "sqlite3.Cursor": "a connection to a database",
    "sqlite3.dbapi2.Connection": "a connection to a database",
    "sqlite3.dbapi2.Cursor": "a connection to a database",
    "_csv.Writer": "a writer of rows",
    "_csv._writer": "a writer of rows",
    "csv.DictWriter": "a writer of rows",
    "_csv.Reader": "a reader of rows",
    "_csv._reader": "a reader of rows",
    "csv.DictReader": "a reader of rows",
    "logging.Handler": "a handler of a log",
    "ssl.SSLContext": "an SSL context",
    "socket.socket": "a socket",
    "selectors.BaseSelector": "a selector",
    "mmap.mmap": "an open file",
    "zipfile.ZipFile": "an open file",
    "typing.IO": "an open file",
    "_io._IOBase": "an open file",
    "io.IOBase": "an open file",
    "typing.Generator": "a generator",
    "collections.abc.Generator": "a generator",
    "typing.AsyncGenerator": "a generator",
    "typing.Coroutine": "a coroutine",
    "typing.Iterator": "a live iterator",
}
"""By class: what cannot be sent."""
CAN = {
    "_io.BytesIO",
    "_io.StringIO",
    "io.BytesIO",
    "io.StringIO",
    "logging.NullHandler",
    "tempfile.SpooledTemporaryFile",
}
"""Classes that derive from such, and can."""
LIVE = ("typing", "builtins", "collections", "_csv")
"""Where iterators come from that others may be reading; one of the user's own may well be sent."""
CONTAINERS = {
    "builtins.list",
    "builtins.tuple",
    "builtins.set",
    "builtins.frozenset",
    "builtins.dict",
    "collections.deque",
    "collections.OrderedDict",
    "typing.Sequence",
    "typing.MutableSequence",
    "typing.Mapping",
    "typing.MutableMapping",
}
COPIED = {"a live iterator", "a run", "a handle of the driver"}
"""What can be copied within a process, or is another rule's."""
OWN_WAY = ("__reduce__", "__reduce_ex__", "__getstate__", "__deepcopy__")
"""Methods by which a class says itself how its objects are sent, or copied."""
KNOWN = {"builtins", "typing", "tflow", "torch", "numpy", "threading", "_thread", "io", "_io", "logging", "gymnasium", "abc"}
"""Libraries whose objects are not looked into."""


def kind_of(t: Type | None) -> str:
    """What it is that cannot be sent; empty if it can, or if that is not certain."""
    found = get_proper_type(t) if t is not None else None
    if isinstance(found, UnionType):
        kinds = [kind_of(item) for item in found.items]
        return kinds[0] if all(kinds) else ""
    if not isinstance(found, Instance) or says_itself(found.type):
        return ""
    names = [base.fullname for base in found.type.mro]
    if any(name in CAN for name in names):
        return ""
    kind = next((KINDS[name] for name in KINDS if name in names), "")
    return "" if kind == "a live iterator" and library(found.type) not in LIVE else kind


def kind_inside(t: Type | None) -> str:
    """What it is of which a container is full; empty if it can be sent."""
    found = get_proper_type(t) if t is not None else None
    if isinstance(found, TupleType):
        return next((kind for item in found.items if (kind := kind_of(item) or kind_inside(item))), "")
    if isinstance(found, Instance) and found.type.fullname in CONTAINERS and found.args:
        return kind_of(found.args[-1]) or kind_inside(found.args[-1])
    return ""


def library(info: TypeInfo) -> str:
    """The package that a class is in."""
    return info.module_name.split(".")[0]


def says_itself(info: TypeInfo) -> bool:
    """True for a class that says how its objects are sent. What cannot be sent says that in the same way."""
    bases = [base for base in info.mro[:-1] if base.fullname not in KINDS and library(base) not in REFUSES]
    return any(base.names.get(method) for base in bases for method in OWN_WAY)


REFUSES = {name.split(".")[0] for name in KINDS} - {"tflow"} | {"builtins"}
"""Libraries that define such methods to say no."""


def made_of(node: object) -> ProperType | None:
    """What a call of a function or a class gives, where mypy has not looked: inside functions without annotations."""
    if isinstance(node, TypeAlias):
        return get_proper_type(node.target)
    if isinstance(node, TypeInfo):
        return Instance(node, [AnyType(1) for _ in node.type_vars])
    found = get_proper_type(node.type) if isinstance(node, (FuncDef, OverloadedFuncDef, Var)) and node.type is not None else None
    if isinstance(found, Overloaded):
        results = [get_proper_type(item.ret_type) for item in found.items]
        return results[0] if len({kind_of(each) for each in results}) == 1 else None
    return get_proper_type(found.ret_type) if isinstance(found, CallableType) else None


def guessed(expr: Expression) -> ProperType | None:
    """The type of a call that mypy has not looked at."""
    if isinstance(expr, CallExpr) and isinstance(expr.callee, RefExpr):
        return made_of(expr.callee.node)
    return None
