"""Descriptions of rollout workers, with the loss in their type, and their streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeAlias, get_args, get_origin, overload

from typing_extensions import TypeVar

from tflow import sentences
from tflow.combinators import check, graph, hints, nodes
from tflow.combinators.actors import ANYWHERE, Actors, FedActor, Place, Resident
from tflow.combinators.par import ParIter
from tflow.combinators.stream import Iter
from tflow.errors import PlanError
from tflow.rl.data.arrays import Array
from tflow.rl.data.batch import Batch, MultiBatch, Rollout, Sampled
from tflow.rl.envs.env_spec import EnvSpec, Maker
from tflow.rl.learning.agent import USUAL_OPTIMIZER, Agent, AnyAgent, AnyLoss, agent_of
from tflow.rl.learning.losses import Loss
from tflow.rl.learning.optimizers import Optimizer
from tflow.rl.policy.exploration import Exploration
from tflow.rl.policy.network_spec import ModelLike
from tflow.rl.policy.weights import Weights, given_weights, seed_for
from tflow.rl.rollout.multi_worker import MultiWorker, spaces_by_policy
from tflow.rl.rollout.worker import RolloutWorker, SingleWorker
from tflow.types import Async, Shard, Signature, Stateless, Sync

if TYPE_CHECKING:
    from tflow.rl.learning.learner import Learner
    from tflow.rl.learning.replica import Replica
    from tflow.rl.policy.network_spec import AnySpace
    from tflow.rl.policy.policy import Policy
    from tflow.runtime.executor import Run

Reads = TypeVar("Reads", contravariant=True)
Requires = TypeVar("Requires", contravariant=True, bound=Async, default=Async)
ReadsI = TypeVar("ReadsI")
RequiresI = TypeVar("RequiresI", bound=Async)
P = TypeVar("P", bound=str)
P_co = TypeVar("P_co", bound=str, covariant=True)
K = TypeVar("K", bound=str)
T = TypeVar("T", covariant=True)
Ci = TypeVar("Ci", bound=Async)
L = TypeVar("L", bound="Learner")
EnvLike: TypeAlias = EnvSpec | str | Maker
USUAL_OPTIONS = {"model": "auto", "exploration": None, "optimizer": USUAL_OPTIMIZER, "max_grad_norm": None}
DEVICES = ("auto", "cpu", "cuda", "mps", "xpu", "hpu")
PolicyOf = Callable[[str], str]
"""Maps the name of an agent to its policy."""


@dataclass(frozen=True)
class WorkerSpec:
    """Description of a rollout worker and its agents. Called with a shard, it makes the worker."""

    env: EnvSpec
    agents: Mapping[str, AnyAgent]
    num_envs: int = 8
    fragment: int = 128
    device: str = "auto"
    policy_of: PolicyOf | None = None
    explore: bool = True
    episodes: int = 10
    cut_after: int | None = None
    """Evaluations during training cut episodes after so many steps: not every env ends them, whatever the policy does."""
    learner_threads: int | None = None
    stands_in: ClassVar[bool] = False
    """For drawings: its agents stand for any."""

    def __call__(self, shard: Shard) -> RolloutWorker:
        return SingleWorker(self, shard) if self.policy_of is None else MultiWorker(self, shard)

    @property
    def losses(self) -> Mapping[str, AnyLoss]:
        """The loss of each policy."""
        return {name: agent.loss for name, agent in self.agents.items()}

    def spaces_of(self, policy: str) -> tuple[AnySpace, AnySpace]:
        """Observation and action space of a policy. Makes the env once, and closes it."""
        if self.policy_of is None:
            envs = self.env.make(1)
            spaces = envs.observation_space, envs.own_action_space
            envs.close()
            return spaces
        return spaces_by_policy(self)[policy]

    def network_of(self, policy: str, seed: int = 0, *, device: str = "cpu") -> Policy:
        """A policy with fresh weights."""
        from tflow.rl.policy.policy_spec import chosen_device, make_policy

        agent, spaces = self.agents[policy], self.spaces_of(policy)
        return make_policy(agent.loss.policy(), agent.network, *spaces, seed=seed, device=chosen_device(device))


class StandInSpec(WorkerSpec):
    """Description of workers of which nothing is known but that there are some, for drawings."""

    stands_in: ClassVar[bool] = True


@dataclass(frozen=True)
class LearnerSpec:
    """Description of the learner of a policy. Making one makes the env once, for its spaces."""

    workers: WorkerSpec
    policy: str

    @property
    def agent(self) -> AnyAgent:
        """The agent that it trains."""
        return self.workers.agents[self.policy]

    def network(self, shard: Shard, device: str) -> Policy:
        """The policy with its initial weights, the same everywhere in a session."""
        made = self.workers.network_of(self.policy, seed_for(shard.session_seed, self.policy), device=device)
        start = given_weights(shard, self.policy)
        if start is not None:
            made.flat.set(start)
        return made

    def __call__(self, shard: Shard) -> Learner:
        from tflow.rl.learning.learner import Learner

        return self.made_as(Learner, shard, self.workers.device)

    def made_as(self, kind: type[L], shard: Shard, device: str) -> L:
        """A learner of this kind, on this device."""
        agent = self.agent
        return kind(
            self.network(shard, device),
            agent.loss,
            agent.optimizer,
            max_grad_norm=agent.max_grad_norm,
            sends=agent.sends,
            seed=seed_for(shard.seed, self.policy),
            threads=self.workers.learner_threads,
        )


@dataclass(frozen=True)
class CurrentPolicySpec:
    """Description of the driver's side of a policy."""

    learner: LearnerSpec

    def __call__(self, shard: Shard) -> CurrentPolicy:
        return CurrentPolicy(self.learner, shard)


class CurrentPolicy:
    """The current weights of a policy in the driver. It has a learner only if the policy is trained there."""

    def __init__(self, spec: LearnerSpec, shard: Shard) -> None:
        self.spec = spec
        self.shard = shard
        self._learner: Learner | None = None
        self._received: Array | None = None
        self._from_elsewhere = False
        self._message: Weights | None = None

    @property
    def learner(self) -> Learner:
        """The learner, made when it is first needed."""
        if self._learner is None:
            self._learner = self.spec(self.shard)
            if self._received is not None:
                self._learner.set_weights(self._received)
        return self._learner

    @property
    def trained_here(self) -> bool:
        """True if it has a learner."""
        return self._learner is not None

    @property
    def weights(self) -> Array:
        """The weights that workers are sent."""
        if self._learner is not None:
            return self._learner.weights
        if self._received is None:
            self._received = self.spec.network(self.shard, "cpu").flat.get(acting=self.spec.agent.sends == "acting")
        return self._received

    def get_weights(self) -> Array:
        """As ``weights``, for ``run.ask(workers.learner, CurrentPolicy.get_weights)``."""
        return self.weights

    def receive(self, weights: Array) -> None:
        """Take the weights of a learner that is elsewhere."""
        self._received = weights
        self._from_elsewhere = True
        if self._learner is not None:  # it computes TD errors here
            self._learner.set_weights(weights)

    def state(self) -> dict[str, Any]:  # Any: of all kinds
        """The learner, if there is one, or the weights that came from elsewhere."""
        learner = None if self._learner is None else self._learner.state()
        return {"learner": learner, "received": self._received, "from_elsewhere": self._from_elsewhere}

    def load(self, state: Mapping[str, Any]) -> None:  # Any: as above
        """Restore a state."""
        self._received, self._from_elsewhere, self._message = state["received"], state["from_elsewhere"], None
        if state["learner"] is not None:
            self.learner.load(state["learner"])

    def message(self, env_steps: int, stops_at: int | None = None) -> Weights:
        """The weights as a message to workers; the same object until they change, so that it is serialised once."""
        if self._message is None or self._message.values is not self.weights:
            self._message = Weights(self.spec.policy, self.weights, env_steps, stops_at)
        return self._message

    def policy(self) -> Policy:
        """A copy of the policy."""
        if self._learner is not None:
            return self._learner.policy.copy()  # acting would disturb the one in training, which also keeps changing
        made = self.spec.network(self.shard, "cpu")
        made.flat.set(self.weights)
        made.acting_only = self._from_elsewhere and len(self.weights) < len(made.flat.values)
        return made


@dataclass(frozen=True, eq=False, repr=False)
class LearnerActor(FedActor["Learner", Reads, Requires]):
    """A learner in an actor of its own, whose loss reads ``Reads`` and requires a stream that offers ``Requires``."""

    spec: LearnerSpec = field(kw_only=True)

    def actor_class(self) -> type | None:
        from tflow.rl.learning.learner import Learner

        return Learner


@dataclass(frozen=True, eq=False, repr=False)
class PolicyResident(Resident[CurrentPolicy]):
    """A policy in the process of the driver."""

    policy: str = field(kw_only=True)

    @property
    def label(self) -> str:
        return "learner" if self.policy == "default" else f"learner of {self.policy}"


@dataclass(frozen=True, eq=False, repr=False)
class AnyWorkers(Actors[RolloutWorker]):
    """Rollout workers, whatever their loss."""

    spec: WorkerSpec = field(kw_only=True)

    @cached_property
    def learners(self) -> Mapping[str, Resident[CurrentPolicy]]:
        """Each policy in the driver, by name."""
        return {
            name: PolicyResident(CurrentPolicySpec(LearnerSpec(self.spec, name)), 1, f"{self.name}.{name}", policy=name)
            for name in self.spec.agents
        }

    @property
    def learner(self) -> Resident[CurrentPolicy]:
        """The only policy in the driver."""
        if len(self.learners) > 1:
            raise PlanError(f"{self.name} has several learners: {', '.join(self.learners)}. Write learners[...].")
        return next(iter(self.learners.values()))

    def policy(self, run: Run[Any], name: str | None = None) -> Policy:  # Any: whatever the run yields
        """A copy of the policy that a run has trained so far; ``name`` says which, if there are several."""
        if name is not None and name not in self.learners:
            raise PlanError(sentences.policy(name, tuple(self.learners), "policy"))
        learner = self.learner if name is None else self.learners[name]
        (found,) = run.ask(learner, CurrentPolicy.policy)
        return found

    def actor_class(self) -> type | None:
        return RolloutWorker

    @classmethod
    def stand_in(cls, hint: object, name: str) -> AnyWorkers:
        """Workers for drawings of functions that need some: with the policies, or a loss, that the annotation asks for."""
        args = get_args(hint)
        if not issubclass(cls, MultiWorkers):
            loss = Loss.stand_in(Loss[args] if len(args) == 2 else Loss, name)  # type: ignore[valid-type]  # known only now
            return create_rollout_workers(env="CartPole-v1", loss=loss, name=name)._standing_in()
        policies = get_args(args[0]) if args and get_origin(args[0]) is Literal else ("default",)
        losses: dict[str, AnyLoss] = {policy: Loss.stand_in(Loss, name) for policy in policies}
        return create_rollout_workers(env="CartPole-v1", losses=losses, policy_of=str, name=name)._standing_in()

    def _standing_in(self) -> AnyWorkers:
        spec = StandInSpec(**vars(self.spec))
        return replace(self, make=spec, spec=spec)


class Workers(AnyWorkers, Generic[Reads, Requires]):
    """Workers with one policy, whose loss reads ``Reads`` and requires a stream that offers ``Requires``."""


class MultiWorkers(AnyWorkers, Generic[P_co]):
    """Workers with several policies, by name."""

    @property
    def policies(self) -> tuple[str, ...]:
        """The names of the policies."""
        return tuple(self.spec.agents)


@overload
def create_rollout_workers(
    *,
    env: EnvLike,
    loss: Loss[ReadsI, RequiresI],
    num_workers: int = 2,
    num_envs: int = 8,
    fragment: int = 128,
    model: ModelLike = "auto",
    exploration: Exploration | None = None,
    optimizer: Optimizer | Mapping[str, Optimizer] = ...,
    max_grad_norm: float | Mapping[str, float | None] | None = None,
    device: str = "auto",
    learner_threads: int | None = None,
    name: str = "workers",
    place: Place = ...,
) -> Workers[ReadsI, RequiresI]: ...
@overload
def create_rollout_workers(
    *,
    env: EnvLike,
    agent: Agent[ReadsI, RequiresI],
    num_workers: int = 2,
    num_envs: int = 8,
    fragment: int = 128,
    device: str = "auto",
    learner_threads: int | None = None,
    name: str = "workers",
    place: Place = ...,
) -> Workers[ReadsI, RequiresI]: ...
@overload
def create_rollout_workers(
    *,
    env: EnvLike,
    losses: Mapping[P, AnyLoss],
    policy_of: Callable[[str], P],
    num_workers: int = 2,
    num_envs: int = 8,
    fragment: int = 128,
    model: ModelLike = "auto",
    exploration: Exploration | None = None,
    optimizer: Optimizer = ...,
    max_grad_norm: float | None = None,
    device: str = "auto",
    learner_threads: int | None = None,
    name: str = "workers",
    place: Place = ...,
) -> MultiWorkers[P]: ...
@overload
def create_rollout_workers(
    *,
    env: EnvLike,
    agents: Mapping[P, AnyAgent],
    policy_of: Callable[[str], P],
    num_workers: int = 2,
    num_envs: int = 8,
    fragment: int = 128,
    device: str = "auto",
    learner_threads: int | None = None,
    name: str = "workers",
    place: Place = ...,
) -> MultiWorkers[P]: ...
def create_rollout_workers(
    *,
    env: EnvLike,
    loss: AnyLoss | None = None,
    agent: AnyAgent | None = None,
    losses: Mapping[Any, AnyLoss] | None = None,  # Any: the names of the policies, typed above
    agents: Mapping[Any, AnyAgent] | None = None,  # Any: as above
    policy_of: PolicyOf | None = None,
    num_workers: int = 2,
    num_envs: int = 8,
    fragment: int = 128,
    model: ModelLike = "auto",
    exploration: Exploration | None = None,
    optimizer: Optimizer | Mapping[str, Optimizer] = USUAL_OPTIMIZER,
    max_grad_norm: float | Mapping[str, float | None] | None = None,
    device: str = "auto",
    learner_threads: int | None = None,
    name: str = "workers",
    place: Place = ANYWHERE,
) -> AnyWorkers:
    """Describe rollout workers.

    Args:
        env: A gymnasium id, a function that makes an env, or an ``EnvSpec``.
        loss: The loss, which decides the kind of policy. For multi-agent envs, ``losses`` has one per policy instead.
        agent: The whole agent, in place of ``loss`` and its options. For multi-agent envs, ``agents`` has one per policy.
        policy_of: Maps the name of an agent to its policy.
        num_workers: Rollout workers, each a process of its own on Ray.
        num_envs: Envs per worker, stepped together as a vector env.
        fragment: Env steps per env and rollout.
        model: The network.
        exploration: The exploration strategy.
        optimizer: The optimiser of the learner, of all parts of the weights or a mapping by part.
        max_grad_norm: Clip gradients to this norm, of each part or a mapping by part; None does not clip.
        device: Torch device of the learner; ``"auto"`` picks a GPU if there is one.
        learner_threads: Torch threads of the learner; None takes one for small networks, else torch's default.
        name: Name of the workers, in errors and drawings.
        place: Where the workers run.

    Law: describing creates nothing; two equal descriptions are two sets of workers.
    """
    where = "create_rollout_workers"
    check.integer(where, "num_workers", num_workers, least=1, most=check.MAX_ACTORS)
    check.integer(where, "num_envs", num_envs, least=1)
    check.integer(where, "fragment", fragment, least=1)
    if sum(each is not None for each in (loss, agent, losses, agents)) != 1:
        raise PlanError(f"{where}: give one of loss= and agent=, or losses= or agents= with one per policy.")
    several = "agents" if agents is not None else "losses"
    if (loss is None and agent is None) != (policy_of is not None):
        raise PlanError(f"{where}: {several}= and policy_of= belong together: policy_of(agent) is one of the names in {several}.")
    options = {"model": model, "exploration": exploration, "optimizer": optimizer, "max_grad_norm": max_grad_norm}
    chosen: dict[str, AnyAgent] = {"default": agent} if agent is not None else dict(agents or {})
    if agent is None and agents is None:
        for policy, each in ({"default": loss} if loss is not None else dict(losses or {})).items():
            check.instance(where, f"the loss of {policy!r}", each, Loss, "a loss such as PPOLoss()")
            chosen[policy] = agent_of(where, each, **options)
    elif options != USUAL_OPTIONS:
        given = " and ".join(f"{name}=" for name, value in options.items() if value != USUAL_OPTIONS[name])
        raise PlanError(f"{where}: {given} and agents contradict each other. Say it in the agent: Agent(loss, {given}...).")
    if not chosen:
        raise PlanError(f"{where}: {several}= is empty; give one per policy.")
    for policy, described_agent in chosen.items():
        check.instance(where, f"the agent of {policy!r}", described_agent, Agent, "an Agent(loss, ...)")
    check_device(where, device)
    if learner_threads is not None:
        check.integer(where, "learner_threads", learner_threads, least=1)
    spec = WorkerSpec(EnvSpec.of(env), chosen, num_envs, fragment, device, policy_of, learner_threads=learner_threads)
    kind = Workers if policy_of is None else MultiWorkers
    return kind(spec, num_workers, name, place=place, spec=spec)


def check_device(where: str, device: str) -> None:
    """Raise unless it is the name of a torch device, available or not."""
    if str(device).partition(":")[0] not in DEVICES:
        raise PlanError(f"{where}: device must be one of torch's, such as 'cpu' or 'cuda:0', or 'auto'; got {device!r}.")


def check_names(where: str, given: Mapping[str, object], known: Sequence[str]) -> None:
    """Raise unless the keys of a mapping are policies."""
    unknown = [name for name in given if name not in known]
    if unknown or not given:
        said = f"there is no policy {unknown[0]!r}" if unknown else "the mapping is empty"
        hint = sentences.did_you_mean(unknown[0], known) if unknown else ""
        raise PlanError(f"{where}: {said}; the policies are {', '.join(known)}.{hint}")


class ParallelRollouts(ParIter[T, Sync, RolloutWorker]):
    """A parallel stream of rollouts, one shard per worker.

    Law: a rollout is sampled with the weights that the worker has when it is asked for it.
    """

    __slots__ = ()
    shape: ClassVar[str] = "ParallelRollouts({workers})"

    @overload
    def __init__(self: ParallelRollouts[Rollout], workers: Workers[Any, Any]) -> None: ...  # Any: whatever its loss
    @overload
    def __init__(self: ParallelRollouts[MultiBatch[Sampled, P]], workers: MultiWorkers[P]) -> None: ...
    @overload
    def __init__(self: ParallelRollouts[Any], workers: AnyWorkers) -> None: ...  # Any: nobody says which of the two
    def __init__(self, workers: AnyWorkers) -> None:
        check.instance("ParallelRollouts", "workers", workers, AnyWorkers, "what create_rollout_workers returns")
        pull = MultiWorker.sample if isinstance(workers, MultiWorkers) else SingleWorker.sample
        super().__init__(nodes.FromActors(workers, pull, shown_as=self.shown(workers=workers.name)))


@dataclass(frozen=True)
class OfPolicy(Stateless[MultiBatch[str, str], Batch[str]]):
    """Selects the batch of one policy."""

    policy: str

    def signature(self, usual: Signature, /) -> Signature:
        """The columns are those of all policies."""
        columns = get_args(usual.given)[0] if get_origin(usual.given) is MultiBatch else str
        return replace(usual, produces=hints.generic(Batch, columns))

    def apply(self, item: MultiBatch[str, str], /) -> Batch[str]:
        return item[self.policy]


class Select(Iter[Batch[K], Ci]):
    """Selects the batches of one policy. Fragments in which it did not act are left out.

    Law: as ``map`` then ``filter``.
    """

    __slots__ = ()
    shape: ClassVar[str] = "Select({policy})"

    def __init__(self, stream: Iter[MultiBatch[K, P], Ci], *, policy: P) -> None:
        check.instance("Select", "stream", stream, Iter, sentences.DRIVER_STREAM)
        known = policies_of(stream.node)
        if known and policy not in known:
            raise PlanError(sentences.policy(policy, known))
        chosen = nodes.ForEach(stream.node, OfPolicy(policy))
        super().__init__(nodes.Filter(chosen, has_rows, shown_as=self.shown(policy=policy)))


def policies_of(node: nodes.Node) -> tuple[str, ...]:
    """The policies of the workers that a stream comes from; none if they are not known."""
    sources = [each.of for each in graph.walk(node) if isinstance(each, nodes.FromActors)]
    return tuple(dict.fromkeys(name for each in sources for name in getattr(each, "policies", ())))


def has_rows(batch: Batch[str]) -> bool:
    """True if the batch is not empty."""
    return len(batch) > 0


@overload
def create_learner(
    workers: Workers[ReadsI, RequiresI], *, policy: str = "default", name: str = "learner", place: Place = ANYWHERE
) -> LearnerActor[ReadsI, RequiresI]: ...
@overload
def create_learner(
    workers: AnyWorkers, *, policy: str = "default", name: str = "learner", place: Place = ANYWHERE
) -> LearnerActor[Any, Any]: ...  # Any: with several policies, their types do not say what each reads
def create_learner(
    workers: AnyWorkers,
    *,
    policy: str = "default",
    name: str = "learner",
    place: Place = ANYWHERE,
) -> LearnerActor[Any, Any]:  # Any: as above
    """Describe a learner in an actor of its own, which trains while workers sample, for ``call`` and ``hand_off``.

    Args:
        workers: The workers whose policy is trained.
        policy: The policy to train, if there are several.
        name: Name of the actor, in errors and drawings.
        place: Where the actor runs.

    Law: describing creates nothing.
    """
    check.instance("create_learner", "workers", workers, AnyWorkers, "what create_rollout_workers returns")
    if policy not in workers.spec.agents:
        raise PlanError(sentences.policy(policy, tuple(workers.spec.agents), "create_learner"))
    spec = LearnerSpec(workers.spec, policy)
    return LearnerActor(spec, 1, name, place=place, restores=True, spec=spec)


@dataclass(frozen=True)
class ReplicaSpec:
    """Description of one of several learners of a policy."""

    learner: LearnerSpec
    devices: tuple[str, ...]

    def __call__(self, shard: Shard) -> Replica:
        from tflow.rl.learning.replica import Replica

        made = self.learner.made_as(Replica, shard, self.devices[shard.index % len(self.devices)])
        made.is_first = shard.index == 0
        return made


@dataclass(frozen=True, eq=False, repr=False)
class LearnerActors(Actors["Replica"]):
    """Several learners of one policy, each in an actor of its own."""

    def actor_class(self) -> type | None:
        from tflow.rl.learning.replica import Replica

        return Replica


def create_learners(
    workers: AnyWorkers,
    *,
    num: int,
    policy: str = "default",
    devices: Sequence[str] = (),
    name: str = "learners",
    place: Place = ANYWHERE,
) -> LearnerActors:
    """Describe several learners of one policy, which begin with the same weights, for ``par_scatter`` and ``par_all_reduce``.

    Args:
        workers: The workers whose policy is trained.
        num: Learners, each an actor of its own.
        policy: The policy to train, if there are several.
        devices: Torch devices, dealt to the learners in turn, such as ``("cuda:0", "cuda:1")``; by default that of the workers.
        name: Name of the actors, in errors and drawings.
        place: Where the actors run.

    Law: describing creates nothing.
    """
    check.instance("create_learners", "workers", workers, AnyWorkers, "what create_rollout_workers returns")
    for device in devices:
        check_device("create_learners", device)
    if policy not in workers.spec.agents:
        raise PlanError(sentences.policy(policy, tuple(workers.spec.agents), "create_learners"))
    spec = ReplicaSpec(LearnerSpec(workers.spec, policy), tuple(devices) or (workers.spec.device,))
    return LearnerActors(spec, num, name, place=place)
