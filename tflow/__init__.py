"""tflow: typed dataflow plans for distributed reinforcement learning.

What plans and scripts need imports from here; ``tflow.losses``, ``tflow.models``, ``tflow.algos`` and their like have the rest.
Names are listed once, in ``__init__.pyi``, and loaded on first use, so ``import tflow`` is quick and loads none of torch, ray and
gymnasium.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
