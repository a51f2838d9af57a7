"""Draws ``docs/pictures/live.svg``, the live view at the end of a real run: ``OMP_NUM_THREADS=1 python docs/live_view.py``."""

from __future__ import annotations

import io
import re
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console

from tflow import Metrics, Stop
from tflow.algos import TrainingRun
from tflow.algos.training_run import Callback
from tflow.observe.view import View
from tflow.presets import preset

PICTURE = Path(__file__).parent / "pictures" / "live.svg"
FONTS = re.compile(r"@font-face \{\{.*?\}\}", re.DOTALL)
"""Rich would load them from elsewhere."""


class Watch(Callback):
    """Keeps the view up to date, as ``ShowProgress`` does."""

    def __init__(self, title: str, stop: Stop) -> None:
        self.view = View(title, stop)

    def reported(self, run: TrainingRun, metrics: Metrics) -> None:
        self.view.see(metrics)


def main() -> None:
    """Train, and draw what was shown last."""
    stop = Stop(mean_return=475)
    watch = Watch("PPO on CartPole-v1, local, seed 0", stop)
    preset("ppo", "CartPole-v1").run(stop=stop, seed=0, eval_every=10_000, callbacks=[watch]).finish()
    console = Console(record=True, width=80, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(watch.view)
    drawn = console.export_svg(title="tflow train ppo", code_format=FONTS.sub("", CONSOLE_SVG_FORMAT), unique_id="live")
    PICTURE.write_text(drawn.replace("Fira Code, ", ""), encoding="utf-8")


if __name__ == "__main__":
    main()
