"""Descriptions of rollout workers, with the loss in their type, and their streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeAlias, get_args, get_origin, overload

from typing_extensions import TypeVar

from tflow import sentences
from tflow.combinators import check, graph, hints, nodes
from tflow.combinators.actors import ANYWHERE, Actor, Actors, Place, Resident
from tflow.combinators.par import ParIter
from tflow.combinators.stream import Iter
from tflow.errors import PlanError
from tflow.rl.data.batch import Batch, MultiBatch, Rollout, Sampled
from tflow.rl.envs.env_spec import EnvSpec, Maker
from tflow.rl.learning.losses import Loss
from tflow.rl.learning.optimizers import Adam, Optimizer
from tflow.rl.policy.exploration import ApexEpsilons, EpsilonGreedy, Exploration
from tflow.rl.policy.network_spec import ModelLike
from tflow.rl.policy.policy_spec import ActorCriticSpec
from tflow.rl.policy.weights import seed_for
from tflow.rl.rollout.multi_worker import MultiWorker, spaces_by_policy
from tflow.rl.rollout.worker import RolloutWorker, SingleWorker
from tflow.types import Async, Shard, Signature, Stateless

if TYPE_CHECKING:
    from tflow.rl.learning.learner import Learner
    from tflow.rl.policy.network_spec import AnySpace
    from tflow.rl.policy.policy import Policy
    from tflow.runtime.executor import Run

AnyLoss = Loss[Any, Any]  # Any: workers with several policies know the names of their losses, not their types
Reads = TypeVar("Reads", contravariant=True)
Requires = TypeVar("Requires", contravariant=True, bound=Async, default=Async)
ReadsI = TypeVar("ReadsI")
RequiresI = TypeVar("RequiresI", bound=Async)
P = TypeVar("P", bound=str)
P_co = TypeVar("P_co", bound=str, covariant=True)
K = TypeVar("K", bound=str)
T = TypeVar("T", covariant=True)
Ci = TypeVar("Ci", bound=Async)
EnvLike: TypeAlias = EnvSpec | str | Maker
USUAL_OPTIMIZER: Optimizer = Adam()
DEVICES = ("auto", "cpu", "cuda", "mps", "xpu", "hpu")
PolicyOf = Callable[[str], str]
"""Maps the name of an agent to its policy."""


@dataclass(frozen=True)
class WorkerSpec:
    """Description of a rollout worker and its learner. Called with a shard, it makes the worker."""

    env: EnvSpec
    losses: Mapping[str, AnyLoss]
    model: ModelLike | Mapping[str, ModelLike] = "auto"
    num_envs: int = 8
    fragment: int = 128
    exploration: Exploration | Mapping[str, Exploration] | None = None
    optimizer: Optimizer | Mapping[str, Optimizer] = field(default_factory=Adam)
    device: str = "auto"
    policy_of: PolicyOf | None = None
    explore: bool = True
    episodes: int = 10
    learner_threads: int | None = None

    def __call__(self, shard: Shard) -> RolloutWorker:
        return SingleWorker(self, shard) if self.policy_of is None else MultiWorker(self, shard)

    def spaces_of(self, policy: str) -> tuple[AnySpace, AnySpace]:
        """Observation and action space of a policy. Makes the env once, and closes it."""
        if self.policy_of is None:
            envs = self.env.make(1)
            spaces = envs.observation_space, envs.own_action_space
            envs.close()
            return spaces
        return spaces_by_policy(self)[policy]

    def model_of(self, policy: str) -> ModelLike:
        """The model of a policy."""
        return self.model.get(policy, "auto") if isinstance(self.model, Mapping) else self.model

    def network_of(self, policy: str, seed: int = 0) -> Policy:
        """A policy as the learner has it, with fresh weights."""
        from tflow.rl.policy.policy_spec import chosen_device, make_policy

        loss, spaces = self.losses[policy], self.spaces_of(policy)
        return make_policy(loss.policy(), self.model_of(policy), *spaces, seed=seed, device=chosen_device(self.device))

    def exploration_of(self, policy: str) -> Exploration | None:
        """The exploration of a policy."""
        return self.exploration.get(policy) if isinstance(self.exploration, Mapping) else self.exploration

    def optimizer_of(self, policy: str) -> Optimizer:
        """The optimiser of a policy."""
        return self.optimizer.get(policy, USUAL_OPTIMIZER) if isinstance(self.optimizer, Mapping) else self.optimizer


@dataclass(frozen=True)
class LearnerSpec:
    """Description of the learner of a policy. Making one makes the env once, for its spaces."""

    workers: WorkerSpec
    policy: str
    loss: AnyLoss | None = None

    @property
    def trains(self) -> AnyLoss:
        """The loss that it minimises."""
        return self.loss or self.workers.losses[self.policy]

    def __call__(self, shard: Shard) -> Learner:
        from tflow.rl.learning.learner import Learner

        spec, name = self.workers, self.policy
        made = spec.network_of(name, seed=seed_for(shard.session_seed, name))
        seed = seed_for(shard.seed, name)
        return Learner(made, self.trains, spec.optimizer_of(name), seed=seed, threads=spec.learner_threads)


@dataclass(frozen=True, eq=False, repr=False)
class LearnerActor(Actor["Learner"]):
    """A learner in an actor of its own."""

    spec: LearnerSpec = field(kw_only=True)

    def actor_class(self) -> type | None:
        from tflow.rl.learning.learner import Learner

        return Learner


@dataclass(frozen=True, eq=False, repr=False)
class LearnerResident(Resident["Learner"]):
    """A learner in the process of the driver."""

    policy: str = field(kw_only=True)

    @property
    def label(self) -> str:
        return "learner" if self.policy == "default" else f"learner of {self.policy}"


@dataclass(frozen=True, eq=False, repr=False)
class AnyWorkers(Actors[RolloutWorker]):
    """Rollout workers, whatever their loss."""

    spec: WorkerSpec = field(kw_only=True)

    @cached_property
    def learners(self) -> Mapping[str, Resident[Learner]]:
        """The learner of each policy, in the driver."""
        return {
            name: LearnerResident(LearnerSpec(self.spec, name), 1, f"{self.name}.{name}", policy=name)
            for name in self.spec.losses
        }

    @property
    def learner(self) -> Resident[Learner]:
        """The learner of the only policy."""
        if len(self.learners) > 1:
            raise PlanError(f"{self.name} has several learners: {', '.join(self.learners)}. Write learners[...].")
        return next(iter(self.learners.values()))

    def policy(self, run: Run[Any], name: str | None = None) -> Policy:  # Any: whatever the run yields
        """A copy of the policy that a run has trained so far; ``name`` says which, if there are several."""
        learner = self.learner if name is None else self.learners[check.one_of("policy", "name", name, tuple(self.learners))]
        (found,) = run.ask(learner, _policy)
        return found

    def actor_class(self) -> type | None:
        return RolloutWorker

    @classmethod
    def stand_in(cls, hint: object, name: str) -> AnyWorkers:
        """Workers for drawings of functions that need some: with the policies, or a loss, that the annotation asks for."""
        args = get_args(hint)
        if not issubclass(cls, MultiWorkers):
            loss = Loss.stand_in(Loss[args] if len(args) == 2 else Loss, name)  # type: ignore[valid-type]  # known only now
            return create_rollout_workers(env="CartPole-v1", loss=loss, name=name)
        policies = get_args(args[0]) if args and get_origin(args[0]) is Literal else ("default",)
        losses: dict[str, AnyLoss] = {policy: Loss.stand_in(Loss, name) for policy in policies}
        return create_rollout_workers(env="CartPole-v1", losses=losses, policy_of=str, name=name)


def _policy(learner: Learner) -> Policy:
    return learner.policy.copy()  # acting would disturb the one in training, which also keeps changing


class Workers(AnyWorkers, Generic[Reads, Requires]):
    """Workers with one policy, whose loss reads ``Reads`` and requires a stream that offers ``Requires``."""


class MultiWorkers(AnyWorkers, Generic[P_co]):
    """Workers with several policies, by name."""


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
    optimizer: Optimizer = ...,
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
    model: ModelLike | Mapping[P, ModelLike] = "auto",
    exploration: Exploration | Mapping[P, Exploration] | None = None,
    optimizer: Optimizer | Mapping[P, Optimizer] = ...,
    device: str = "auto",
    learner_threads: int | None = None,
    name: str = "workers",
    place: Place = ...,
) -> MultiWorkers[P]: ...
def create_rollout_workers(
    *,
    env: EnvLike,
    loss: AnyLoss | None = None,
    losses: Mapping[Any, AnyLoss] | None = None,  # Any: the names of the policies, typed above
    policy_of: PolicyOf | None = None,
    num_workers: int = 2,
    num_envs: int = 8,
    fragment: int = 128,
    model: Any = "auto",  # Any: typed above
    exploration: Any = None,  # Any: typed above
    optimizer: Any = USUAL_OPTIMIZER,  # Any: typed above
    device: str = "auto",
    learner_threads: int | None = None,
    name: str = "workers",
    place: Place = ANYWHERE,
) -> AnyWorkers:
    """Describe rollout workers.

    Args:
        env: A gymnasium id, a function that makes an env, or an ``EnvSpec``.
        loss: The loss, which decides the kind of policy. For multi-agent envs, ``losses`` has one per policy instead.
        policy_of: Maps the name of an agent to its policy.
        num_workers: Rollout workers, each a process of its own on Ray.
        num_envs: Envs per worker, stepped together as a vector env.
        fragment: Env steps per env and rollout.
        model: The network, of all policies or a mapping by policy.
        exploration: The exploration strategy, of all policies or a mapping by policy.
        optimizer: The optimiser of the learner, of all policies or a mapping by policy.
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
    if (loss is None) == (losses is None):
        raise PlanError(f"{where}: give either loss=, or losses= with one per policy.")
    if (losses is None) != (policy_of is None):
        raise PlanError(f"{where}: losses= and policy_of= belong together: policy_of(agent) is one of the names in losses.")
    chosen = {"default": loss} if loss is not None else dict(losses or {})
    if not chosen:
        raise PlanError(f"{where}: losses= is empty; give one loss per policy.")
    for policy, given in chosen.items():
        check.instance(where, f"the loss of {policy!r}", given, Loss, "a loss such as PPOLoss()")
    check_device(where, device)
    check_choices(where, tuple(chosen), model=model, exploration=exploration, optimizer=optimizer)
    for policy, given in chosen.items():
        tried = exploration.get(policy) if isinstance(exploration, Mapping) else exploration
        if isinstance(tried, (EpsilonGreedy, ApexEpsilons)) and isinstance(given.policy(), ActorCriticSpec):
            raise PlanError(
                f"{where}: {type(tried).__name__} is for Q-learning. {type(given).__name__} trains a stochastic policy, whose "
                "log-probabilities would be wrong. Leave out exploration=."
            )
    if learner_threads is not None:
        check.integer(where, "learner_threads", learner_threads, least=1)
    spec = WorkerSpec(
        EnvSpec.of(env),
        chosen,
        model,
        num_envs,
        fragment,
        exploration,
        optimizer,
        device,
        policy_of,
        learner_threads=learner_threads,
    )
    kind = Workers if losses is None else MultiWorkers
    return kind(spec, num_workers, name, place=place, spec=spec)


def check_device(where: str, device: str) -> None:
    """Raise unless it is the name of a torch device, available or not."""
    if str(device).partition(":")[0] not in DEVICES:
        raise PlanError(f"{where}: device must be one of torch's, such as 'cpu' or 'cuda:0', or 'auto'; got {device!r}.")


def check_choices(where: str, policies: tuple[str, ...], **given: object) -> None:
    """Check options that may be given for all policies, or by policy."""
    allowed: dict[str, tuple[Callable[[object], bool], str]] = {
        "model": (
            lambda each: each == "auto" or callable(each) or hasattr(each, "build"),
            "'auto', a description such as MLP((64, 64)), or a function that builds your module",
        ),
        "exploration": (
            lambda each: each is None or hasattr(each, "start"),
            "an exploration strategy such as EpsilonGreedy(0.1)",
        ),
        "optimizer": (lambda each: isinstance(each, Optimizer), "an optimiser such as Adam(lr=3e-4)"),
    }
    for name, choice in given.items():
        fits, example = allowed[name]
        for policy, each in choice.items() if isinstance(choice, Mapping) else [(policies[0], choice)]:
            check.one_of(where, f"each name in {name}", policy, policies)
            if not fits(each):
                raise PlanError(f"{where}: {name} must be {example}; got {each!r}.")


class ParallelRollouts(ParIter[T]):
    """A parallel stream of rollouts, one shard per worker.

    Law: a rollout is sampled with the weights that the worker has when it is asked for it.
    """

    __slots__ = ()
    shape: ClassVar[str] = "ParallelRollouts({workers})"

    @overload
    def __init__(self: ParallelRollouts[Rollout], workers: Workers[Any, Any]) -> None: ...  # Any: whatever its loss
    @overload
    def __init__(self: ParallelRollouts[MultiBatch[Sampled, P]], workers: MultiWorkers[P]) -> None: ...
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
    workers = [each.of for each in graph.walk(node) if isinstance(each, nodes.FromActors)]
    return tuple(dict.fromkeys(name for each in workers if isinstance(each, MultiWorkers) for name in each.spec.losses))


def has_rows(batch: Batch[str]) -> bool:
    """True if the batch is not empty."""
    return len(batch) > 0


def create_learner(
    workers: AnyWorkers,
    *,
    policy: str = "default",
    loss: AnyLoss | None = None,
    name: str = "learner",
    place: Place = ANYWHERE,
) -> Actor[Learner]:
    """Describe a learner in an actor of its own, which trains while workers sample, for ``call`` and ``hand_off``.

    Args:
        workers: The workers whose policy is trained.
        policy: The policy to train, if there are several.
        loss: Replaces the loss of the workers.
        name: Name of the actor, in errors and drawings.
        place: Where the actor runs.

    Law: describing creates nothing.
    """
    check.instance("create_learner", "workers", workers, AnyWorkers, "what create_rollout_workers returns")
    check.one_of("create_learner", "policy", policy, tuple(workers.spec.losses))
    if loss is not None:
        check.instance("create_learner", "loss", loss, Loss, "a loss such as PPOLoss()")
    spec = LearnerSpec(workers.spec, policy, loss)
    return LearnerActor(spec, 1, name, place=place, spec=spec)
