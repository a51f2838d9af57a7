"""Episodes as pictures: played by a policy, written as GIF or MP4."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tflow.errors import EnvError, MissingExtra, PlanError
from tflow.extras import require
from tflow.rl.data.arrays import Array
from tflow.rl.envs.env_spec import EnvSpec
from tflow.rl.policy.policy import Policy
from tflow.rl.rollout.worker_spec import EnvLike

MOST_FRAMES = 3_000
"""Longer episodes are cut: a minute and a half at the usual speed."""
USUAL_FPS = 30
SUFFIXES = (".gif", ".mp4")


class FilmedEpisode(NamedTuple):
    """An episode in pictures."""

    frames: list[Array]
    fps: float
    episode_return: float
    length: int


def check_video(path: Path) -> None:
    """Raise for a file that could not be written, before anything is played."""
    if path.suffix.lower() not in SUFFIXES:
        raise PlanError(f"A video is a file that ends with .gif or .mp4; got {str(path)!r}.")
    if path.suffix.lower() == ".gif":
        require("PIL", extra="video", feature="GIF files")
    else:
        ffmpeg()


def record_episode(policy: Policy, env: EnvLike, *, seed: int = 0, deterministic: bool = True) -> FilmedEpisode:
    """Let a policy play an episode, and keep what the env shows. Episodes are cut after 3,000 steps."""
    spec = EnvSpec.of(env)
    playing = spec.make_single(render_mode="rgb_array")
    try:
        if playing.render_mode != "rgb_array":
            known = ", ".join(map(str, playing.metadata.get("render_modes", []))) or "none"
            raise PlanError(f"{spec.name} cannot be filmed: it does not take render_mode='rgb_array'. It knows {known}.")
        seen, info = playing.reset(seed=seed)
        frames, total, over = [picture(playing.render(), spec.name)], 0.0, False
        while not over and len(frames) <= MOST_FRAMES:
            masks = info.get("action_mask")
            action = policy.act(seen, deterministic=deterministic, masks=masks, first=len(frames) == 1)
            seen, reward, terminated, truncated, info = playing.step(action)
            total, over = total + float(reward), terminated or truncated
            frames.append(picture(playing.render(), spec.name))
        return FilmedEpisode(frames, float(playing.metadata.get("render_fps") or USUAL_FPS), total, len(frames) - 1)
    finally:
        playing.close()


def picture(shown: Any, name: str) -> Array:  # Any: whatever the env renders
    """What an env has rendered, as rows of red, green and blue with even numbers of rows and columns, as videos need them."""
    found = np.asarray(shown)
    if found.dtype != np.uint8 or found.ndim != 3 or found.shape[2] != 3:
        raise EnvError(f"renders {found.dtype} of shape {found.shape}, not pictures: uint8 of (height, width, 3).", name)
    return np.ascontiguousarray(found[: found.shape[0] // 2 * 2, : found.shape[1] // 2 * 2])


def write_video(recording: FilmedEpisode, path: Path) -> None:
    """Write a GIF or an MP4, as the name says."""
    check_video(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    (write_gif if path.suffix.lower() == ".gif" else write_mp4)(recording, path)


def write_gif(recording: FilmedEpisode, path: Path) -> None:
    image: Any = require("PIL.Image", extra="video", feature="GIF files")  # Any: its types are not needed
    first, *others = (image.fromarray(frame) for frame in recording.frames)
    first.save(path, save_all=True, append_images=others, duration=max(20, round(1000 / recording.fps)), loop=0)


def write_mp4(recording: FilmedEpisode, path: Path) -> None:
    height, width, _ = recording.frames[0].shape
    command = [
        ffmpeg(), "-y", "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}",
        "-r", f"{recording.fps:g}", "-i", "-", "-pix_fmt", "yuv420p", str(path),
    ]  # fmt: skip
    done = subprocess.run(command, input=b"".join(frame.tobytes() for frame in recording.frames), capture_output=True)  # noqa: S603  # it is ffmpeg
    if done.returncode:
        raise PlanError(f"ffmpeg could not write {str(path)!r}: {done.stderr.decode(errors='replace').strip()}")


def ffmpeg() -> str:
    """The program ffmpeg: the one of this machine, or of the package imageio-ffmpeg."""
    found = shutil.which("ffmpeg")
    if found is None:
        try:
            found = str(require("imageio_ffmpeg", extra="video", feature="MP4 files").get_ffmpeg_exe())
        except RuntimeError as error:
            raise MissingExtra(f"MP4 files need the program ffmpeg: {error}") from None
    return found
