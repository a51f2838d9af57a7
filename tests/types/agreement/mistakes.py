"""Mistakes in general streams: each adds one to a plan, if it can be made there, and says whether it has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.types.agreement.streams import OPERATORS, Stream, Writer

Mistake = Callable[[Writer, Stream], bool]
MISTAKES: dict[str, Mistake] = {}
DIRECT = {"zipped_with_other_actors", "options_after_repartition", "united_after_repartition", "no_such_shard"}
"""Mistakes about where shards come from, which no type says."""

# Left out: ``from_range(9).every(steps=5)`` in a plan without actors. Validation looks at the whole plan; the checker sees a
# function that returns a stream, which may be a part of a plan that has actors.


def mistake(make: Mistake) -> Mistake:
    MISTAKES[make.__name__] = make
    return make


# --------------------------------------------------------------------------- flow


@mistake
def other_element(writer: Writer, stream: Stream) -> bool:
    wanted = {
        "int": ("str", "Louder()"),
        "str": ("int", "Double()"),
        "list[int]": ("int", "Total()"),
        "list[str]": ("str", "Length()"),
    }
    if not stream.known or stream.element not in wanted:
        return False
    element, op = wanted[stream.element]
    par = "par_" if stream.parallel else ""
    made = dict(OPERATORS[element])[op]
    writer.then(stream, f".{par}for_each({op})", element=made)
    return True


@mistake
def not_an_operator(writer: Writer, stream: Stream) -> bool:
    if stream.element != "int":
        return False
    par = "par_" if stream.parallel else ""
    code = writer.pick([f".{par}for_each(double)", f".{par}for_each(Double)", f".{par}map(Double())", f".{par}filter(Double())"])
    writer.then(stream, code)
    return True


# --------------------------------------------------------------------------- placement


@mistake
def wrong_side(writer: Writer, stream: Stream) -> bool:
    """A method of the other kind of stream."""
    if stream.parallel:
        code = writer.pick([".map(same)", ".tap(print)", ".take(3)", ".drain()", ".every(items=2)", ".flatten()", ".shuffle(3)"])
    else:
        code = writer.pick(
            [".par_map(same)", ".par_tap(print)", ".gather_sync()", ".gather_async()", ".repartition(2)", ".select_shards(0)"]
        )
    writer.then(stream, code)
    return True


@mistake
def union_of_shards(writer: Writer, stream: Stream) -> bool:
    if not stream.parallel:
        return False
    other = writer.on_driver(writer.source(parallel=False))
    code = writer.pick(["Union({0}, {1})", "{1}.zip({0})"])
    made = Stream(writer.fresh(), f"{stream.element} | {other.element}", sync=False, known=False)
    writer.add(made, code, [stream, other])
    return True


@mistake
def actor_op_on_driver(writer: Writer, stream: Stream) -> bool:
    if stream.parallel or stream.element != "int":
        return False
    writer.then(stream, f".for_each({writer.pick(['BesideWorker()', 'Teach()'])})")
    return True


@mistake
def driver_op_in_actor(writer: Writer, stream: Stream) -> bool:
    if stream.element != "int":
        return False
    op = writer.pick(["OnDriver()", "Notes()", "FreshNumber()", "Passes()"])
    if stream.parallel:
        writer.then(stream, f".par_for_each({op})")
    else:
        actor = writer.value("create_actor(Teacher)", "teacher")
        writer.then(stream, f".{writer.pick(['call', 'hand_off'])}({actor}, {op})")
    return True


@mistake
def other_actor(writer: Writer, stream: Stream) -> bool:
    if stream.element != "int":
        return False
    if not stream.parallel:
        actor = writer.value("create_actor(Teacher)", "teacher")
        writer.then(stream, f".{writer.pick(['call', 'hand_off'])}({actor}, BesideWorker())")
        return True
    if stream.host == "Teacher":
        writer.then(stream, ".par_for_each(BesideWorker())")
    else:
        writer.then(stream, ".par_for_each(Teach())", element="str")
    return True


@mistake
def zipped_with_other_actors(writer: Writer, stream: Stream) -> bool:
    if not stream.parallel or stream.fed:
        return False
    other = writer.source(parallel=True)
    if any(word in step.code for step in writer.steps for word in (" for ", "for_each(")):
        return False  # the checker knows no comprehension and runs no operator of the user, so it does not know what they make
    element = f"tuple[{stream.element}, {other.element}]"
    host = stream.host if stream.host == other.host else "object"
    writer.add(replace(stream, name=writer.fresh(), element=element, host=host), "{0}.par_zip({1})", [stream, other])
    return True


# --------------------------------------------------------------------------- sync


@mistake
def not_fresh(writer: Writer, stream: Stream) -> bool:
    if stream.parallel or stream.element not in ("int", "str"):
        return False
    if stream.sync:
        stream = writer.then(stream, ".shuffle(3)", sync=False)
    writer.then(stream, f".for_each({'FreshNumber()' if stream.element == 'int' else 'FreshWord()'})")
    return True


# --------------------------------------------------------------------------- linear, unused


@mistake
def consumed_twice(writer: Writer, stream: Stream) -> bool:
    """The second consumer stays open beside the first."""
    if stream.parallel:
        writer.then(stream, ".gather_sync()", parallel=False, host="object")
        writer.then(stream, ".gather_async()", parallel=False, host="object", sync=False)
        return True
    writer.then(stream, writer.same_kind(stream))
    if writer.random.random() < 0.5:
        writer.then(stream, writer.same_kind(stream))
    else:
        writer.open.append(stream)
    return True


@mistake
def branch_left_over(writer: Writer, stream: Stream) -> bool:
    names = [writer.fresh("b") for _ in range(writer.random.randint(2, 4))]
    branches = [replace(stream, name=name, parallel=False, host="object") for name in names]
    writer.split(stream, f".split({len(names)})", branches)
    left = writer.random.choice(branches)
    writer.open.remove(left)
    return True


# --------------------------------------------------------------------------- literal

DRIVER_LITERALS = [
    ".batch({0})", ".take({-1})", ".shuffle({0})", ".every(items={0})", ".every(seconds={0})", ".every(seconds=-1.5)",
    ".shuffle(3, seed={-1})", ".batch({-2})", ".split({0})[0]", ".split(max_lag={0})[0]",
]  # fmt: skip
PAR_LITERALS = [
    ".par_batch({0})", ".par_take({-1})", ".par_shuffle({0})", ".repartition({0})", ".repartition({-1})",
    ".gather_async(in_flight={0})", ".gather_sync(timeout_s={0})", ".gather_sync(timeout_s=-0.5)",
    ".gather_rounds(timeout_s={-1})", ".gather_async(timeout_s=0.0)", ".repartition(2, timeout_s={0})",
]  # fmt: skip
FREE_LITERALS = [
    ".gather_async(per_call={0})",
    ".gather_async(max_staleness={-1})",
    ".gather_async(per_call=TimeBudget(seconds=0.0))",
]


def filled(writer: Writer, template: str) -> str:
    """Numbers in braces, written in some way."""
    start, brace, rest = template.partition("{")
    if not brace:
        return template
    number, _, end = rest.partition("}")
    return f"{start}{writer.number(int(number))}{end}"


@mistake
def bad_number(writer: Writer, stream: Stream) -> bool:
    inside = PAR_LITERALS if stream.fed else PAR_LITERALS + FREE_LITERALS
    template = writer.pick(inside if stream.parallel else DRIVER_LITERALS)
    gathers = template.startswith((".gather", ".split"))
    stays = stream.parallel and not gathers
    writer.then(
        stream, filled(writer, template), parallel=stays, host=stream.host if stays else "object", sync=False, known=False
    )
    return True


@mistake
def bad_weights(writer: Writer, stream: Stream) -> bool:
    if stream.parallel:
        return False
    other = writer.source(parallel=False)
    options = writer.pick(
        ["weights=[1]", "weights=[1, 2, 3]", "weights=[0, 1]", "weights=(1, -1)", 'weights=[1, 1], mode="async"']
    )
    writer.union([stream, other], f", {options}")
    return True


@mistake
def bad_source(writer: Writer, stream: Stream) -> bool:
    code = writer.pick(
        [
            "from_range({-1})", "par_from_items([1, 2], shards={0})", "par_from_range(4, shards={-1})", "par_from_range({-4})",
            "from_items(number for number in range(3))", "from_items(iter([1, 2]))", "par_from_iterables([])",
            "par_from_items(iter([1]))", "from_actors(create_actors(Worker, num={0}), Worker.number)",
            "from_actors(create_actors(Worker, mailbox={0}), Worker.number)",
        ]
    )  # fmt: skip
    parallel = code.startswith(("par_", "from_actors"))
    host = "Worker" if "Worker" in code else "object"
    writer.add(Stream(writer.fresh(), "int", parallel=parallel, host=host), filled(writer, code), [])
    return True


@mistake
def bad_call(writer: Writer, stream: Stream) -> bool:
    if stream.parallel or stream.element != "int":
        return False
    actor = writer.value("create_actor(Teacher)", "teacher")
    code = writer.pick(
        [".hand_off({a}, Teach(), mailbox={0})", ".call({a}, Teach(), timeout_s={0})", ".hand_off({a}, Teach(), timeout_s={-1})"]
    )
    writer.then(stream, filled(writer, code.replace("{a}", actor)), element="str", sync=False)
    return True


@mistake
def no_such_shard(writer: Writer, stream: Stream) -> bool:
    if not stream.parallel:
        return False
    code = writer.pick([f".select_shards({stream.shards})", ".select_shards(0, 0)", ".select_shards()", ".select_shards(-1)"])
    writer.then(stream, code)
    return True


@mistake
def options_after_repartition(writer: Writer, stream: Stream) -> bool:
    if not stream.parallel or stream.fed:
        return False
    dealt = writer.dealt(stream)
    code = writer.pick([".gather_async(per_call=2)", ".gather_async(max_staleness=3)"])
    writer.then(dealt, code, parallel=False, sync=False)
    return True


@mistake
def united_after_repartition(writer: Writer, stream: Stream) -> bool:
    if not stream.parallel or stream.fed or stream.host != "object":
        return False
    dealt = writer.dealt(stream)
    other = writer.source(parallel=True, element="int")
    if other.host != "object":
        return False
    made = replace(dealt, name=writer.fresh(), element=f"{dealt.element} | int")
    writer.add(made, "ParUnion({0}, {1})", [dealt, other])
    return True


@mistake
def takes_of_nothing(writer: Writer, stream: Stream) -> bool:
    if stream.parallel:
        return False
    drained = writer.then(stream, ".drain()", element="Never")
    writer.then(drained, ".take(3)")
    return True


# --------------------------------------------------------------------------- travel


@mistake
def cannot_travel(writer: Writer, stream: Stream) -> bool:
    if not stream.parallel or stream.element != "int":
        return False
    made = {
        "threading.Lock()": "lock",
        "(number for number in range(3))": "lines",
        "iter([1, 2])": "each",
        "queue.Queue[int]()": "queue",
    }
    code = writer.pick(list(made))
    held = writer.value(code, made[code])
    way = writer.pick(
        [
            f".par_map(lambda x: (x, {held})[0])", f".par_for_each(Holds({held}))", f".par_for_each(Holds([{held}]))",
            f".par_map(partial(keep, {held}))", f'.par_for_each(Holds({{{{"it": {held}}}}}))', ".par_for_each(MakesLock())",
            ".par_for_each(LockByDefault())", f".par_filter(lambda x: {held} is not None)",
            f".par_scan(lambda a, x: (a, {held})[0], 0)",
        ]
    )  # fmt: skip
    writer.then(stream, way, known=False)
    return True


@mistake
def cannot_be_copied(writer: Writer, stream: Stream) -> bool:
    if stream.parallel or stream.element != "int":
        return False
    writer.then(stream, f".for_each({writer.pick(['MakesLock()', 'LockByDefault()', 'Holds(threading.Lock())'])})")
    return True
