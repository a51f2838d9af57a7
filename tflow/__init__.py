"""tflow: typed dataflow plans for distributed reinforcement learning.

What plans and scripts need imports from here; ``tflow.losses``, ``tflow.models``, ``tflow.algos`` and their like have the rest.
Names are listed once, in ``__init__.pyi``, and loaded on first use, so ``import tflow`` is quick and loads none of torch, ray and
gymnasium.
"""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__version__ = "0.1.0"


def load_ipython_extension(shell: "InteractiveShell") -> None:
    """``%load_ext tflow``: plans are checked before the cells of a notebook run."""
    from tflow.checking.cells import load

    load(shell)


def unload_ipython_extension(shell: "InteractiveShell") -> None:
    """``%unload_ext tflow``."""
    from tflow.checking.cells import unload

    unload(shell)


__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
