"""How a cluster is started safely and joined, and what its errors say. Needs no ray: ``ray.py`` does what this decides."""

from __future__ import annotations

import atexit
import logging
import os
import re
import secrets
import shutil
import socket
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from tflow.combinators import check
from tflow.combinators.actors import Place
from tflow.errors import PlanError

MODE, TOKEN, TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"


@dataclass(frozen=True)
class ClusterSettings:
    """What a user says about the cluster."""

    address: str | None
    num_cpus: int | None
    num_gpus: int | None
    store_mb: float | None
    modules: Sequence[str | ModuleType | Path]
    dashboard: bool
    logs: bool

    def check(self, *, running: bool) -> None:
        """Raise if this cannot be had; ``running``: this process is connected to a cluster already."""
        where = "RayRuntime"
        if self.address is not None:
            check.instance(where, "address", self.address, str, "a string")
            if self.address.startswith("ray://"):
                raise PlanError(f"{where}: {self.address!r} is Ray's client protocol. Run the driver on a node of the cluster.")
        for name, amount in {"num_cpus": self.num_cpus, "num_gpus": self.num_gpus}.items():
            if amount is not None:
                check.integer(where, name, amount, least=0)
        if self.store_mb is not None:
            check.positive(where, "store_mb", self.store_mb)
            if self.store_mb < 76:
                raise PlanError(f"{where}: store_mb must be at least 76, which is what Ray needs, got {self.store_mb:g}.")
        if isinstance(self.modules, (str, Path, ModuleType)):
            raise PlanError(f"{where}: modules must be a list, got {self.modules!r}. Write modules=[{self.modules!r}].")
        check.boolean(where, "dashboard", self.dashboard)
        check.boolean(where, "logs", self.logs)
        sizes = {
            "num_cpus": self.num_cpus,
            "num_gpus": self.num_gpus,
            "store_mb": self.store_mb,
            "dashboard": self.dashboard or None,
        }
        fixed = [name for name, value in sizes.items() if value is not None]
        if self.address is not None and fixed:
            raise PlanError(f"{where}: {', '.join(fixed)} cannot be chosen for a cluster that runs already; leave it out.")
        if running:
            fixed += [name for name, value in {"address": self.address, "modules": self.modules}.items() if value]
        if running and fixed:
            raise PlanError(
                f"{where}: this process is connected to a Ray cluster already, so {', '.join(fixed)} would come too late. "
                "Leave it out, or call ray.shutdown() first."
            )

    def arguments(self) -> dict[str, Any]:  # Any: keyword arguments
        """What to start or to join a cluster with."""
        chosen: dict[str, Any] = {"log_to_driver": self.logs, "logging_level": logging.ERROR}  # Any: keyword arguments
        if self.modules:
            chosen["runtime_env"] = {"py_modules": [path_of(module) for module in self.modules]}
        if self.address is not None:
            return {"address": self.address, **chosen}
        chosen["address"] = "local"  # and not one that someone else has started on this machine
        chosen["include_dashboard"] = self.dashboard
        chosen["dashboard_host"] = "127.0.0.1"
        store = None if self.store_mb is None else int(self.store_mb * 2**20)
        sizes = {"num_cpus": self.num_cpus, "num_gpus": self.num_gpus, "object_store_memory": store}
        return chosen | {name: value for name, value in sizes.items() if value is not None}


PROBE_TIMEOUT_S = 5.0


def probe(address: str) -> None:
    """Raise if nobody listens there: Ray itself would try for a quarter of an hour."""
    host, _, port = address.rpartition(":")
    if not port.isdigit():
        return  # "auto", or nonsense: Ray says what is wrong
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=PROBE_TIMEOUT_S).close()
    except OSError as error:
        raise PlanError(f"RayRuntime: could not connect to {address}: {error}. Is the head of the cluster up?") from error


def path_of(module: str | ModuleType | Path) -> str:
    """The folder of a package, or the file of a module."""
    if isinstance(module, Path) or (isinstance(module, str) and ("/" in module or os.sep in module)):
        if not Path(module).exists():
            raise PlanError(f"RayRuntime: modules: there is no {module}.")
        return str(module)
    if isinstance(module, str):
        if find_spec(module) is None:
            raise PlanError(f"RayRuntime: modules: there is no module {module!r}.")
        module = import_module(module)
    check.instance("RayRuntime", "a module", module, ModuleType, "a module, its name or a path")
    file = module.__file__
    if file is None:
        raise PlanError(f"RayRuntime: modules: {module.__name__!r} is built in and has no file.")
    return str(Path(file).parent) if hasattr(module, "__path__") else file


def secure() -> None:
    """Before a cluster is started: a secret that whoever talks to it must know. Ray listens on all interfaces.

    The secret is in a file of its own, which only its owner can read; what the user has set up is left alone. It is made once
    per process, because Ray reads it once.
    """
    if os.environ.get(MODE) or os.environ.get(TOKEN) or os.environ.get(TOKEN_PATH):
        return
    path = Path(tempfile.mkdtemp(prefix="tflow-ray-")) / "token"  # a folder that only its owner can enter
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secrets.token_hex(32))
    atexit.register(shutil.rmtree, path.parent, ignore_errors=True)
    os.environ[TOKEN_PATH] = str(path)  # a cluster that is started with a token at hand asks for it


def is_secure() -> bool:
    """True if a cluster that was just started asks for the secret, or the user wants it otherwise."""
    return os.environ.get(MODE) is not None


def fits(place: Place, node: Mapping[str, object]) -> bool:
    """True if such an actor could live there, when there is room."""
    have = node["Resources"]
    return bool(node["Alive"]) and isinstance(have, dict) and all(have.get(what, 0) >= much for what, much in place.needs.items())


def check_feasible(name: str, place: Place, nodes: Iterable[Mapping[str, object]]) -> None:
    """Raise if no node could ever hold such an actor."""
    nodes = list(nodes)
    if not any(fits(place, node) for node in nodes):
        have = [node["Resources"] for node in nodes if node["Alive"]]
        shown = [{k: v for k, v in each.items() if ":" not in k and "memory" not in k} for each in have if isinstance(each, dict)]
        raise PlanError(f"create_actors: each of {name} needs {place.needs}, and no node has that. The nodes have {shown}.")


REASONS = {
    r"memory pressure|OutOfMemory|low on memory": "it was ended because its node ran out of memory",
    r"node.{0,40}(died|has been terminated|dead)|missed too many heartbeats|raylet.{0,20}died": "its node is gone",
    r"killed by `?ray.kill": "it was killed",
    r"INTENDED_USER_EXIT|exit_actor|SystemExit": "its process exited",
    r"worker process has died|unexpectedly exits|connection error": "its process died",
    r"unavailable": "it cannot be reached",
}


def brief(error: BaseException) -> str:
    """What Ray's error means, in a few words."""
    cause = getattr(error, "cause", None)  # what a method of an actor raised
    if isinstance(cause, BaseException):
        return f"{type(cause).__name__}: {cause}".rstrip(".")
    text = f"{type(error).__name__} {error}".split("Some common causes")[0]  # a list of all that it might have been
    for pattern, meaning in REASONS.items():
        if re.search(pattern, text, re.IGNORECASE):
            return meaning
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1] if lines else 'no more is known'}".rstrip(".")


def maker_of(error: BaseException, otherwise: str) -> str:
    """The actor whose answer could not be sent: the innermost that Ray's text names."""
    named: list[str] = re.findall(r"repr=([^)]*)\)", str(error))
    return named[-1] if named else otherwise


def is_stopped(pid: int) -> bool:
    """True if this is a worker of Ray on this machine (process numbers are used again) that was stopped by a signal."""
    process = Path(f"/proc/{pid}")
    try:
        return (process / "cmdline").read_bytes().startswith(b"ray::") and "State:\tT" in (process / "status").read_text()
    except OSError:
        return False
