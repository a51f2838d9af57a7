"""``tflow hub``: the folder of a model as the Hugging Face hub shows it, written without network."""

from __future__ import annotations

import json
import re
import shutil
import statistics
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tflow.errors import PlanError

if TYPE_CHECKING:
    from tflow.rl.data.episodes import Episodes

CARD = "README.md"
LIBRARY = "tflow"
FOLDERS = re.compile(r"""(?:(?<=["'])|^)(?:/|[A-Za-z]:[/\\])[^"'\n]*[/\\]""")
"""The folders of an absolute path, in quotes or alone."""
USE = """## Use it

```python
from huggingface_hub import snapshot_download
from tflow import Policy, evaluate

policy = Policy.load(snapshot_download({name}))
print(evaluate(policy, {env}, episodes=10).mean_return)
```

`config.toml` repeats the training: `tflow train --config config.toml`. `training.csv` has its curves, `plan.svg` its plan.
"""


def hub(
    run: Annotated[Path, typer.Argument(help="A run folder.", show_default=False, exists=True, file_okay=False)],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="The folder to write. Default: RUN/hub.", file_okay=False)
    ] = None,
    name: Annotated[str | None, typer.Option(metavar="USER/NAME", help="What the model is called on the hub.")] = None,
    episodes: Annotated[int, typer.Option(help="Episodes of the evaluation in the card.", min=1)] = 20,
    best: Annotated[bool, typer.Option("--best/--latest", help="The policy with the best evaluation, or the latest one.")] = True,
    seed: Annotated[int, typer.Option(help="Random seed of the evaluation.", min=0)] = 1_000_003,
    video: Annotated[Literal["gif", "mp4"] | None, typer.Option(help="Film an episode: replay.gif or replay.mp4.")] = None,
    license: Annotated[str | None, typer.Option(metavar="ID", help="The licence of the model, such as apache-2.0.")] = None,  # noqa: A002  # the flag
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Write a folder for the Hugging Face hub: a model card with an evaluation, the policy, its settings and its metrics.

    Nothing is sent: hf upload USER/NAME DIR does that. Neither the machine nor the folders of the run are told.
    """
    from tflow.commands.evaluate import evaluate_asked, film
    from tflow.commands.targets import Asked
    from tflow.observe.folder import CONFIG
    from tflow.rl.policy.files import BEST, LATEST
    from tflow.settings.files import read_file

    if not (run / CONFIG).is_file():
        raise PlanError(f"{str(run)!r} has no {CONFIG}, so tflow train has not written it.")
    folder = output or run / "hub"
    if (folder / CARD).exists():
        raise PlanError(f"There is a model card in {str(folder)!r} already. Choose another folder, or remove that one.")
    fields, settings = read_file(run / CONFIG)
    kind = BEST if best and any(run.glob(f"{BEST}*.safetensors")) else LATEST
    asked = Asked(run, kind == BEST)
    found = evaluate_asked(asked, episodes=episodes, seed=seed)
    folder.mkdir(parents=True, exist_ok=True)
    for file in sorted(run.glob(f"{kind}*.safetensors")):
        shutil.copyfile(file, folder / file.name.replace(BEST, LATEST))
    (folder / CONFIG).write_text(without_folders((run / CONFIG).read_text(encoding="utf-8")), encoding="utf-8")
    for other, called in (("metrics.csv", "training.csv"), ("plan.svg", "plan.svg")):  # under its own name it would be a run
        if (run / other).is_file():
            shutil.copyfile(run / other, folder / called)
    filmed = "" if video is None else film(asked, folder / f"replay.{video}", seed=seed, deterministic=True)
    algo, env = (without_folders(str(each)) for each in (settings.get("algo") or fields.get("algo"), fields["env"]))
    text = card(name or run.resolve().name, algo, env, found, licence=license, video=video, steps=steps_of(run))
    (folder / CARD).write_text(text, encoding="utf-8")
    results = {part or "policy": {"returns": each.returns, "lengths": each.lengths} for part, each in found.items()}
    (folder / "results.json").write_text(json.dumps({"episodes": episodes, "seed": seed, **results}, indent=2) + "\n")
    typer.echo(f"{folder}: {', '.join(sorted(each.name for each in folder.iterdir()))}.")
    if filmed:
        typer.echo(filmed)
    typer.echo(f"Upload it with: hf upload {name or 'USER/NAME'} {folder}")


def without_folders(text: str) -> str:
    """A text without the folders of this machine: of files that it names, the names are left.

    >>> without_folders('env = "/home/me/mine.py:Env"')
    'env = "mine.py:Env"'
    """
    return FOLDERS.sub("", text)


def steps_of(run: Path) -> int | None:
    """The env steps of a run."""
    try:
        found = json.loads((run / "run.json").read_text(encoding="utf-8"))["metrics"].get("env_steps")
    except (OSError, ValueError, KeyError):
        return None
    return None if found is None else int(found)


def scored(found: Episodes) -> str:
    """Mean and standard deviation, as leaderboards of the hub read them."""
    return f"{found.mean_return:.2f} +/- {statistics.pstdev(found.returns):.2f}"


def card(
    name: str,
    algo: str,
    env: str,
    found: dict[str, Episodes],
    *,
    licence: str | None = None,
    video: str | None = None,
    steps: int | None = None,
) -> str:
    """The model card: what the hub reads, in YAML, then what people read."""
    quoted = json.dumps  # YAML has the texts of JSON
    lines = ["---", f"library_name: {LIBRARY}", *([] if licence is None else [f"license: {quoted(licence)}"]), "tags:"]
    lines += [
        f"- {quoted(tag)}" for tag in dict.fromkeys((env, "reinforcement-learning", "deep-reinforcement-learning", LIBRARY, algo))
    ]
    lines += ["model-index:", f"- name: {quoted(name)}", "  results:"]
    for part, each in found.items():
        lines += [
            "  - task:",
            "      type: reinforcement-learning",
            "      name: reinforcement-learning",
            "    dataset:",
            f"      name: {quoted(env)}",
            f"      type: {quoted(env)}",
            "    metrics:",
            "    - type: mean_reward",
            f"      value: {quoted(scored(each))}",
            f"      name: {quoted(' '.join(filter(None, ('mean_reward', part))))}",
            "      verified: false",
        ]
    lines += ["---", "", f"# {algo} on {env}", ""]
    trained = "" if steps is None else f", trained for {steps:,} env steps"
    by = f"[tflow](https://pypi.org/project/tflow/) {version(LIBRARY)}"
    lines += [f"An agent of the algorithm `{algo}` on `{env}`{trained}, by {by}.", ""]
    for part, each in found.items():
        lines.append(f"- {part or 'return'}: {scored(each)} over {each.count} episodes, without exploration")
    if video is not None:
        lines += ["", "![an episode](replay.gif)" if video == "gif" else '<video controls src="replay.mp4"></video>']
    return "\n".join([*lines, "", USE.format(name=quoted(name), env=quoted(env))])
