"""A gated transformer as a memory (GTrXL, Parisotto et al. 2019, arXiv 1910.06764)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from tflow.rl.policy.network import Maybe, scaled

GATE_BIAS = 2.0
"""At first, gates let through almost only what was there before, so that the network starts as one without a memory."""


class GRUGate(nn.Module):
    """A gate like that of a GRU in place of a residual connection: how much of what is new replaces what was there."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.new, self.old = nn.Linear(size, 3 * size, bias=False), nn.Linear(size, 2 * size, bias=False)
        self.candidate = nn.Linear(size, size, bias=False)
        self.bias = nn.Parameter(torch.full((size,), GATE_BIAS))

    def forward(self, old: Tensor, new: Tensor) -> Tensor:
        (reset_new, update_new, proposed), (reset_old, update_old) = self.new(new).chunk(3, -1), self.old(old).chunk(2, -1)
        update = (update_new + update_old - self.bias).sigmoid()
        candidate = (proposed + self.candidate((reset_new + reset_old).sigmoid() * old)).tanh()
        return torch.lerp(old, candidate, update)


class Block(nn.Module):
    """Attention to the latest steps by content and by distance, then dense layers; each normalised first and gated."""

    def __init__(self, size: int, heads: int, window: int) -> None:
        super().__init__()
        self.heads, self.width = heads, size // heads
        self.before_attention, self.before_dense = nn.LayerNorm(size), nn.LayerNorm(size)
        self.queries, self.content = scaled(nn.Linear(size, size), 1.0), scaled(nn.Linear(size, 2 * size), 1.0)
        self.joined = scaled(nn.Linear(size, size))
        self.distances = nn.Parameter(torch.randn(heads, window + 1, self.width) / math.sqrt(self.width))
        """What each head looks for at each distance, from 0, the step itself, to ``window`` steps before."""
        self.likes_content, self.likes_distance = (nn.Parameter(torch.zeros(heads, 1, self.width)) for _ in range(2))
        self.dense = nn.Sequential(scaled(nn.Linear(size, 2 * size)), nn.ReLU(), scaled(nn.Linear(2 * size, size)))
        self.attended, self.computed = GRUGate(size), GRUGate(size)

    def forward(self, steps: Tensor, seen: Tensor, visible: Tensor, distance: Tensor) -> Tensor:
        """The next layer of ``steps`` (sequences, length, size).

        Args:
            steps: What this layer is given.
            seen: The same, with the steps before (sequences, window + length, size).
            visible: What of it each step may see (sequences, length, window + length).
            distance: How far it is from each step (length, window + length).
        """
        attention = self._attention(self.before_attention(steps), self.before_attention(seen), visible, distance)
        kept = self.attended(steps, attention.relu())
        computed: Tensor = self.computed(kept, self.dense(self.before_dense(kept)).relu())
        return computed

    def _attention(self, steps: Tensor, seen: Tensor, visible: Tensor, distance: Tensor) -> Tensor:
        queries = self.queries(steps).unflatten(-1, (self.heads, self.width)).transpose(1, 2)
        keys, values = self.content(seen).unflatten(-1, (2, self.heads, self.width)).permute(2, 0, 3, 1, 4)
        by_content = (queries + self.likes_content) @ keys.transpose(-1, -2)
        by_distance = (queries + self.likes_distance) @ self.distances.transpose(-1, -2)
        by_distance = by_distance.gather(-1, distance.expand(*by_distance.shape[:2], -1, -1))
        scores = (by_content + by_distance) / math.sqrt(self.width)
        shares = scores.masked_fill(~visible.unsqueeze(1), -math.inf).softmax(-1)  # a step always sees itself
        joined: Tensor = self.joined((shares @ values).transpose(1, 2).flatten(-2))
        return joined


class GatedTransformer(nn.Module):
    """A transformer over the latest ``window`` steps of an episode, in sequences in which episodes may start anywhere.

    The state is one tensor (rows, layers * window * size + window): what each layer was given in the latest steps, the oldest
    first, then 1 for each of these steps that was in the episode. So a state of zeros remembers nothing. As no step of any layer
    sees more than ``window`` steps back, a sequence is computed at once exactly as it is step by step.
    """

    def __init__(self, features: int, size: int, *, layers: int, heads: int, window: int) -> None:
        super().__init__()
        self.features, self.window = size, window
        self.state_size = (layers * size + 1) * window
        self.embedding = scaled(nn.Linear(features, size), 1.0)
        self.blocks = nn.ModuleList(Block(size, heads, window) for _ in range(layers))

    def forward(self, features: Tensor, state: Maybe = None, resets: Maybe = None) -> tuple[Tensor, Tensor]:
        """(sequences, length, features) and the state before them: (sequences, length, size) and the state after them.

        ``resets`` (sequences, length) is True at the first step of an episode, which sees nothing of what was before.
        """
        sequences, length, _ = features.shape
        if state is None:
            state = features.new_zeros(sequences, self.state_size)
        if resets is None:
            resets = torch.zeros(sequences, length, dtype=torch.bool, device=features.device)
        remembered = state[:, : -self.window].reshape(sequences, len(self.blocks), self.window, self.features)
        episodes = resets.cumsum(1)  # the number of each step's episode; that of the state, where it has one, is 0
        numbers = torch.cat((torch.where(state[:, -self.window :] > 0.5, 0, -1), episodes), 1)
        distance = self.window + torch.arange(length, device=state.device)[:, None]
        distance = distance - torch.arange(self.window + length, device=state.device)
        visible = (numbers[:, None] == episodes[:, :, None]) & (distance >= 0) & (distance <= self.window)
        distance = distance.clamp(0, self.window)
        steps, after = self.embedding(features), []
        goes_on = numbers[:, -self.window :] == episodes[:, -1:]
        for layer, block in enumerate(self.blocks):
            seen = torch.cat((remembered[:, layer], steps), 1)
            after.append((seen[:, -self.window :] * goes_on.unsqueeze(-1)).flatten(1))
            steps = block(steps, seen, visible, distance)
        return steps, torch.cat((*after, goes_on.to(steps.dtype)), 1)
