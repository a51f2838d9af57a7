"""The rules by name: what each is about, in one line. ``tflow check --explain CODE`` has a page for each."""

from __future__ import annotations

TITLES = {
    "tflow-flow": "an operator does not accept what the stream before it yields",
    "tflow-placement": "an operator is applied where it cannot run",
    "tflow-sync": "on-policy training on a stream without a barrier",
    "tflow-columns": "a batch lacks a column that is read",
    "tflow-policy": "a policy that the workers do not have",
    "tflow-linear": "a stream is consumed twice",
    "tflow-unused": "a stream is never consumed",
    "tflow-literal": "an argument that the operator refuses",
    "tflow-travel": "a value that cannot travel to an actor",
    "tflow-untyped": "a plan without annotations is not checked",
    "tflow-unchecked": "the plugin could not check something",
}
