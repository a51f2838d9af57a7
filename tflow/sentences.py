"""What is said about a mistake in a plan: the same sentence in the editor (the mypy plugin) and at run time (``PlanError``).

Operators are named as plans are printed, such as ``gather_async()`` or ``for_each(ApplyGradients)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from tflow.domain import named_batches


def listed(names: Iterable[str]) -> str:
    """``a, b and c``."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def did_you_mean(given: str, known: Iterable[str], most: int = 2) -> str:
    """`` Did you mean a or b?``, or nothing if there is nothing like it."""
    small = {each.lower().replace("-", "_"): each for each in known}
    near = get_close_matches(given.lower().replace("-", "_"), small, n=most)
    return f" Did you mean {' or '.join(small[each] for each in near)}?" if near else ""


def called_beside(name: str, others: Iterable[str]) -> str:
    """What workers are called beside others: two sets of them may have the same name, most often the default."""
    return f"another set of workers, which is called {name}, too (give each its name=)," if name in others else name


def batch(columns: Sequence[str]) -> str:
    """A batch by its columns: ``Rollout``, ``Rollout+advantages``, ``Batch[rewards, values]``."""
    for known in named_batches():
        if set(known.columns) <= set(columns):
            return "+".join([known.name, *(column for column in columns if column not in known.columns)])
    return f"Batch[{', '.join(columns)}]"


def flow(operator: str, wanted: str, before: str, given: str, bridge: str = "") -> str:
    """An operator does not accept what it is given. ``bridge`` is what would turn the one into the other."""
    fix = f" Did you forget {bridge}?" if bridge else ""
    return f'Ill-typed plan: "{operator}" consumes {wanted}, but "{before}" before it yields {given}.{fix}'


def never_ends(take: str) -> str:
    """So many items of a stream that shows none."""
    return f"{take} would never end: everything before it is drained, so there is nothing to count."


def gated(method: str, source: str) -> str:
    """Something inside actors that makes fewer or more items than were asked for, of actors that are asked with care."""
    return f"{method}: {source} limits how often it is asked. Gather first, then use {method.removeprefix('par_')}."


def columns(operator: str, missing: Sequence[str], before: str, given: str, adder: str = "") -> str:
    """A batch lacks columns that an operator reads. ``adder`` is an operator that adds them."""
    what = f"the column{'s' * (len(missing) > 1)} {listed(missing)}"
    them = "them" if len(missing) > 1 else "it"
    fix = f" with_columns({adder}()) adds {them}." if adder else ""
    for known in named_batches() if not adder else ():
        if known.source and set(missing) <= set(known.columns):
            fix = f" {known.source.format(them=them)}"
    return f'Ill-typed plan: "{operator}" reads {what}, but "{before}" before it yields {given}, which lacks {them}.{fix}'


def beside_actor(operator: str, method: str) -> str:
    """An operator of actors, on the driver."""
    return (
        f'Ill-typed plan: "{operator}" works beside an actor, but {method} runs it on the driver. Apply it with par_for_each '
        "before gathering, or with call() or hand_off()."
    )


def on_driver(operator: str, method: str) -> str:
    """An operator of the driver, inside an actor."""
    inside = "inside the actors" if method.startswith("par_") else "inside an actor"
    fix = "Gather first, then use for_each." if method.startswith("par_") else "Use for_each."
    return f'Ill-typed plan: "{operator}" must run on the driver, but {method} runs it {inside}. {fix}'


def other_actor(operator: str, wanted: str, method: str, given: str) -> str:
    """An operator of actors of another class."""
    return f'Ill-typed plan: "{operator}" works beside a {wanted}, but {method} runs it beside a {given}.'


def no_actor(operator: str, wanted: str) -> str:
    """An operator of actors where there are none, or of several classes."""
    return (
        f'Ill-typed plan: "{operator}" works beside a {wanted}, but these shards hold no such actor. Start from '
        f"from_actors(create_actors({wanted}), ...)."
    )


def sync(operator: str, culprit: str) -> str:
    """On-policy training on a stream that ``culprit`` made asynchronous."""
    fix = "Items of earlier rounds may wait there: leave it out, or use a loss that is not on-policy."
    if culprit == "gather_async()":
        fix = "Use gather_sync() or gather_rounds()."
    return f'Ill-typed plan: "{operator}" needs a synchronous stream, but "{culprit}" makes it asynchronous. {fix}'


def stored(operator: str, source: str) -> str:
    """On-policy training on items that were stored before."""
    return (
        f'Ill-typed plan: "{operator}" needs fresh items, but those of "{source}" were made before, and no barrier makes them '
        "fresh. Use a loss that is not on-policy, or items as they are sampled."
    )


def sync_declared(operator: str, name: str) -> str:
    """On-policy training on a stream that is declared without a barrier."""
    return (
        f'Ill-typed plan: "{operator}" needs a synchronous stream, but "{name}" is declared without a barrier. '
        "Declare it Iter[..., Sync], and gather what is given with gather_sync()."
    )


def sync_returned(operator: str, function: str) -> str:
    """On-policy training on what a function returns that is declared without a barrier."""
    return (
        f'Ill-typed plan: "{operator}" needs a synchronous stream, but "{function}" is declared to return one without a barrier. '
        "If it keeps the rounds that it is given, declare what it takes and what it returns Iter[..., Sync]."
    )


def no_end(function: str, last: str, given: str, ending: str) -> str:
    """A function that is to return a plan returns a stream."""
    fix = f" End with {ending}(stream, ...)." if ending else " End with what makes a plan of it."
    return f'"{function}" is to return a plan, but "{last}" only makes a stream, {given}.{fix}'


def one_for_all(argument: str, parts: Sequence[str], by: str) -> str:
    """A mapping where there is one value for all parts."""
    return f"{argument} is the same for {listed(parts)}. To have one for each, give them with {by}={{...}} instead."


def no_driver_method(name: str, *, inside: bool, known: bool) -> str:
    """A method of driver streams, asked of a parallel one. ``inside``: there is one that does the same inside the actors."""
    first = f" Use par_{name} to do it inside the actors, or" if inside else " To do this,"
    hint = f"{first} gather first: stream.gather_sync().{name}(...)." if known else ""
    return f"A parallel stream has no {name!r}.{hint}"


def no_parallel_method(name: str) -> str:
    """A method of parallel streams, asked of one on the driver."""
    hint = " It runs inside actors, and this stream is on the driver." if name.startswith(("par_", "gather_")) else ""
    return f"A stream has no {name!r}.{hint}"


def wrong_argument(where: str, name: str, wanted: str, given: str) -> str:
    """An argument of another kind."""
    return f"{where}: {name} must be {wanted}, got {given}."


DRIVER_STREAM = "a driver stream (gather a parallel one first)"
PARALLEL_STREAM = "a parallel stream"


def policy(name: str, known: Sequence[str], where: str = "Select") -> str:
    """A policy that nobody trains."""
    there = f"there {'are' if len(known) > 1 else 'is'} {listed(known)}" if known else "there is only one policy, without a name"
    return f'{where}: there is no policy "{name}"; {there}.{_did_you_mean_the_name(name, known)}'


def mapped(by: str, name: str, known: Sequence[str], agent: str = "") -> str:
    """A function maps something to a policy that nobody trains."""
    who = f"agent {agent!r}" if agent else "agents"
    there = f"there {'are' if len(known) > 1 else 'is'} only {listed(known)}"
    return f'{by} maps {who} to the policy "{name}", but {there}.{_did_you_mean_the_name(name, known)}'


def not_stored(operator: str, name: str, places: Sequence[str]) -> str:
    """A policy that is stored where there is no place for it."""
    there = f"only of {listed(places)}"
    return f'{operator}: there is no buffer of the policy "{name}", {there}.{_did_you_mean_the_name(name, places)}'


def near(name: str, known: Sequence[str]) -> str:
    """The name that was probably meant; empty if none is like it."""
    small = {each.lower(): each for each in known}
    found = get_close_matches(name.lower(), small, 1)
    return small[found[0]] if found else ""


def _did_you_mean_the_name(name: str, known: Sequence[str]) -> str:
    meant = near(name, known)
    return f' Did you mean "{meant}"?' if meant else ""


def consumed_twice(stream: str, first: str, second: str) -> str:
    """Two operators consume one stream."""
    return f"The stream {stream} is consumed twice: by {first} and by {second}. To feed both, write `a, b = stream.split()`."


def branch_twice(split: str, index: int) -> str:
    """Two operators consume one branch."""
    return f"Branch {index} of {split} is consumed twice. Split into one more branch instead."


def branch_unused(split: str, indices: Iterable[int]) -> str:
    """Nobody consumes a branch."""
    return (
        f"{split}: branch {', '.join(map(str, indices))} is never consumed, so the others would wait for it for ever. "
        "Consume it (drain() will do) or split into fewer."
    )


def branch_dropped(split: str, index: int, line: int) -> str:
    """Nobody consumes a branch on one of several paths."""
    return (
        f"{split}: branch {index} is not consumed on the path that ends in line {line}, where the others would wait for it for "
        "ever. Consume it on every path (drain() will do), or split where both are consumed."
    )


CANNOT_TRAVEL = {
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
    "multiprocessing.queues.JoinableQueue": "a queue",
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
    "_csv.writer": "a writer of rows",
    "_csv._writer": "a writer of rows",
    "csv.DictWriter": "a writer of rows",
    "_csv.Reader": "a reader of rows",
    "_csv.reader": "a reader of rows",
    "_csv._reader": "a reader of rows",
    "csv.DictReader": "a reader of rows",
    "logging.Handler": "a handler of a log",
    "ssl.SSLContext": "an SSL context",
    "socket.socket": "a socket",
    "selectors.BaseSelector": "a selector",
    "mmap.mmap": "an open file",
    "zipfile.ZipFile": "an open file",
    "tempfile._TemporaryFileWrapper": "an open file",
    "typing.IO": "an open file",
    "_io._IOBase": "an open file",
    "io.IOBase": "an open file",
    "typing.Generator": "a generator",
    "collections.abc.Generator": "a generator",
    "typing.AsyncGenerator": "a generator",
    "builtins.generator": "a generator",
    "builtins.async_generator": "a generator",
    "typing.Coroutine": "a coroutine",
    "builtins.coroutine": "a coroutine",
    "typing.Iterator": "a live iterator",
}
"""By class, in types or at run time: what cannot be sent to an actor."""
CAN_TRAVEL = {
    "_io.BytesIO",
    "_io.StringIO",
    "io.BytesIO",
    "io.StringIO",
    "logging.NullHandler",
    "tempfile.SpooledTemporaryFile",
}
"""Classes that derive from such, and can."""
OWN_WAY = ("__reduce__", "__reduce_ex__", "__getstate__", "__deepcopy__")
"""Methods by which a class says itself how its objects are sent, or copied."""
COPIED = {"a live iterator", "a run", "a handle of the driver"}
"""What can be copied within a process, or is another sentence's."""
TRAVEL = {
    "a lock": "Make it where it is used, inside the actor",
    "an open file": "Open it where it is used, inside the actor",
    "a generator": "Pass a list, or a function that makes it",
    "a live iterator": "Pass a list, or a function that makes it",
    "a socket": "Open it where it is used, inside the actor",
    "a thread": "Start it where it is used, inside the actor",
    "thread-local data": "Make it where it is used, inside the actor",
    "a process": "Start it where it is used, inside the actor",
    "a queue": "Each actor would have one of its own: return items instead, and use what is gathered",
    "an executor": "Make it where it is used, inside the actor",
    "a future": "Wait for it first, and pass its result",
    "a coroutine": "Pass the function that makes it",
    "an event loop": "Make it where it is used, inside the actor",
    "a connection to a database": "Open it where it is used, inside the actor",
    "a writer of rows": "Open the file where it is used, inside the actor",
    "a reader of rows": "Pass a list, or a function that makes it",
    "a handler of a log": "Loggers travel by name: pass logging.getLogger(...), and add its handlers inside the actor",
    "an SSL context": "Make it where it is used, inside the actor",
    "a selector": "Make it where it is used, inside the actor",
    "a run": "Runs exist only on the driver: use for_each after gathering instead",
    "a handle of the driver": "Handles exist only on the driver: use a LiveOp in for_each instead",
}


ITEM = "an item"


def part(owner: str, name: str) -> str:
    """What a part is called, seen from outside."""
    if not owner or not name:
        return owner or name
    return f"{name} of {owner}" if name.startswith(ITEM) or owner == ITEM else f"{owner}.{name}"


def travel(where: str, name: str, kind: str) -> str:
    """Something that cannot be sent to an actor."""
    fix = TRAVEL.get(kind, "Make it where it is used, inside the actor")
    return f"{where}: {name} is {kind}, which cannot travel to an actor. {fix}."


def copied(operator: str, why: str) -> str:
    """An operator on the driver of which a run cannot have a copy of its own."""
    return (
        f"{operator} cannot be copied for a run, as it could not travel to an actor: {why}. Keep locks, open files and the like "
        "out of operators."
    )


def class_of_operator(method: str, name: str) -> str:
    """A class where a value of it is needed."""
    return f"{method}: got the class {name}; pass a value of it, {name}(...)."


def function_for_operator(method: str, name: str) -> str:
    """A function where an operator is needed."""
    hint = f" Plain functions go to {method.replace('for_each', 'map')}()." if "for_each" in method else ""
    return f"{method}: expected an operator, a value of a class that derives from Op, got the function {name}.{hint}"


def columns_for_operator(method: str, name: str) -> str:
    """An operator that adds columns where one that turns items into others is needed."""
    return f"{method}: {name} adds columns. Use {method.replace('for_each', 'with_columns')}({name}(...))."


FORGOTTEN_PLAN = "This plan is made and never run. Return it, give it a name, or run it: `plan.run()`."
FORGOTTEN_RUN = "This run does nothing until somebody goes through it. Write `.finish()` behind it, or `for metrics in ...:`."


def no_column(name: str, have: Sequence[str]) -> str:
    """A batch has no such column."""
    near = did_you_mean(name, have)
    return f"There is no column {name!r} in this batch, {batch(have)}.{near or f' It has {listed(have)}.'}"


def operator_for_function(method: str, name: str) -> str:
    """An operator where a function is needed."""
    hint = f" Use {method.replace('map', 'for_each')}({name}(...))." if method in ("map", "par_map") else ""
    return f"{method}: {name} is an operator, not a function.{hint}"
