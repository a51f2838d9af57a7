"""Checkpoints as folders: JSON for what a run remembers, safetensors for its arrays, and a manifest with the hash of both.

A folder is written aside, flushed to disk, and renamed when it is complete: it is there as a whole or not at all. What is read
is hashed first, and the same bytes are then used. Nothing that is read is executed (``tflow.state``).

Large arrays are written in *pages*, files of some thousand rows each, named by their hash. A page that the checkpoint before has,
too, is linked, not written again: of a large replay buffer, a checkpoint writes what has changed.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import struct
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tflow.errors import CheckpointError
from tflow.state.values import Array, Encoded, Json

FORMAT = 2
"""Of the folder; a reader refuses a newer one. The first had no pages."""
MANIFEST, STATE, ARRAYS = "manifest.json", "state.json", "arrays.safetensors"
OWN_HASH = "sha256"
"""Where a manifest has the hash of itself."""
ASIDE = ".part"
"""What the names of folders that are not complete end with."""
PAGE_BYTES = 16 * 2**20
"""Arrays that are larger are written in pages of about this size."""
WRITERS = 2
"""Threads that hash and write pages."""
ROWS = "rows"
"""What pages call the array that they hold."""
PACKAGES = ("tflow", "numpy", "torch", "gymnasium", "ray")
Resumable: TypeAlias = str | os.PathLike[str] | Encoded
"""What a run can go on from: the folder of a checkpoint, or a snapshot in memory."""
TYPES = {
    "bool": "BOOL", "int8": "I8", "uint8": "U8", "int16": "I16", "uint16": "U16", "int32": "I32", "uint32": "U32", "int64": "I64",
    "uint64": "U64", "float16": "F16", "float32": "F32", "float64": "F64",
}  # fmt: skip
"""What safetensors calls the types of numpy."""
OWN_TYPES = {name: kind for kind, name in TYPES.items()}


# --------------------------------------------------------------------------- writing


Files = dict[str, dict[str, object]]
"""Files of a checkpoint by name, with the hash and the size of each, and the pages of its arrays."""


class ArrayFile(NamedTuple):
    """Where arrays are written."""

    path: Path
    before: Path | None = None
    """The checkpoint before this one, with whose pages it may share what has not changed."""


class Written(NamedTuple):
    """A part of a checkpoint whose arrays an actor has written itself."""

    tree: Json
    file: str
    files: Files
    """That file, and its pages."""


Make = Callable[[Path], tuple[Encoded, Files]]
"""Makes the content of a checkpoint; what it writes itself into the folder, it names with its facts."""


def write(folder: Path, make: Make, facts: Mapping[str, object], before: Path | None = None) -> None:
    """Write a checkpoint. On an error nothing is left of it, and what was there before is still there."""
    aside = folder.with_name(folder.name + ASIDE)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        if aside.exists():  # of a process that was killed
            shutil.rmtree(aside)
        aside.mkdir()
        encoded, files = make(aside)
        files |= write_arrays(ArrayFile(aside / ARRAYS, before), encoded.arrays)
        files[STATE] = _write(aside / STATE, [json.dumps(encoded.tree, allow_nan=False).encode()])
        manifest = {"format": FORMAT, **facts, "versions": versions(), "saved_at": time.time(), "files": files}
        manifest[OWN_HASH] = _own_hash(manifest)
        _write(aside / MANIFEST, [json.dumps(manifest, indent=2).encode()])
        _flush(aside)
        _replace(aside, folder)
        _flush(folder.parent)
    except OSError as error:
        shutil.rmtree(aside, ignore_errors=True)
        raise CheckpointError(f"The checkpoint {folder} could not be written: {error.strerror or error}.") from error
    except Exception:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def write_arrays(file: ArrayFile, arrays: list[Array]) -> Files:
    """Write arrays to a file, by their numbers, and the large ones to pages beside it."""
    numbered = {str(number): array for number, array in enumerate(arrays)}
    large = {number: array for number, array in numbered.items() if array.nbytes > PAGE_BYTES and len(array) > 1}
    facts = _write(file.path, safetensors({number: array for number, array in numbered.items() if number not in large}))
    if not large:
        return {file.path.name: facts}
    pages = {number: list(pages_of(array)) for number, array in large.items()}
    with ThreadPoolExecutor(WRITERS) as pool:  # hashing and writing do not hold the interpreter's lock
        names = {number: list(pool.map(partial(_page_name, file.path), each)) for number, each in pages.items()}
        content = {name: page for number, each in names.items() for name, page in zip(each, pages[number], strict=True)}
        files = dict(zip(content, pool.map(partial(_write_page, file), content, content.values()), strict=True))
    facts["pages"] = {
        number: {"dtype": TYPES[array.dtype.name], "shape": array.shape, "files": names[number]}
        for number, array in large.items()
    }
    return {file.path.name: facts, **files}


def pages_of(array: Array) -> Iterator[Array]:
    """The rows of a large array in pages, whose borders do not depend on how many rows there are."""
    rows = max(1, PAGE_BYTES * len(array) // array.nbytes)
    for first in range(0, len(array), rows):
        yield array[first : first + rows]


def _page_name(path: Path, page: Array) -> str:
    digest = hashlib.sha256()
    for chunk in safetensors({ROWS: page}):
        digest.update(chunk)
    return f"{path.stem}-{digest.hexdigest()}{path.suffix}"


def _write_page(file: ArrayFile, name: str, page: Array) -> dict[str, object]:
    """Link a page of the checkpoint before, or write it; its hash and its size."""
    if file.before is not None:
        known, size = file.before / name, sum(map(len, safetensors({ROWS: page})))
        try:
            if known.stat().st_size == size:  # else it was cut off
                os.link(known, file.path.with_name(name))
                return {"sha256": Path(name).stem.rpartition("-")[2], "bytes": size}
        except OSError:  # it is not there, or this system knows no links
            pass
    return _write(file.path.with_name(name), safetensors({ROWS: page}))


def _own_hash(manifest: Mapping[str, object]) -> str:
    """The hash of all else that a manifest says, as a reader of it sees it."""
    said = {name: each for name, each in manifest.items() if name != OWN_HASH}
    return hashlib.sha256(json.dumps(json.loads(json.dumps(said)), sort_keys=True).encode()).hexdigest()


def _replace(aside: Path, folder: Path) -> None:
    """Put a complete folder into its place. One that is there already steps aside, and counts until the new one is there."""
    if not folder.exists():
        aside.rename(folder)
    else:
        old = _old(folder)
        shutil.rmtree(old, ignore_errors=True)
        folder.rename(old)
        try:
            aside.rename(folder)
        except OSError:
            old.rename(folder)
            raise
    shutil.rmtree(_old(folder), ignore_errors=True)


def _old(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.old{ASIDE}")


def whole(folder: Path) -> Path:
    """Where a checkpoint is: in its place, or beside it, if a process was killed while it wrote a new one there."""
    return _old(folder) if not folder.exists() and (_old(folder) / MANIFEST).exists() else folder


def _write(path: Path, chunks: Iterable[bytes | memoryview]) -> dict[str, object]:
    """Write a file to disk; its hash and its size."""
    digest, size = hashlib.sha256(), 0
    with path.open("wb") as file:
        for chunk in chunks:
            digest.update(chunk)
            size += file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    return {"sha256": digest.hexdigest(), "bytes": size}


def _flush(folder: Path) -> None:
    """Let a folder's list of files reach the disk, where systems can do that."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def safetensors(arrays: Mapping[str, Array]) -> Iterable[bytes | memoryview]:
    """A safetensors file with these arrays, piece by piece: no copy of them is made."""
    header: dict[str, object] = {}
    at = 0
    for name, array in arrays.items():
        header[name] = {"dtype": TYPES[array.dtype.name], "shape": array.shape, "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    yield struct.pack("<Q", len(text)) + text
    for array in arrays.values():
        if array.nbytes:
            yield array.reshape(-1).view(np.uint8).data


def versions() -> dict[str, str]:
    """The versions of the packages that matter."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


# --------------------------------------------------------------------------- reading


def content_of(resume: Resumable, fingerprint: str) -> Encoded:
    """What a run of the plan with this fingerprint can go on from."""
    if isinstance(resume, Encoded):
        return resume
    folder = whole(Path(resume))
    manifest, encoded = read(folder)
    if manifest.get("plan") != fingerprint:
        raise CheckpointError(
            f"The checkpoint {folder} is of another plan ({manifest.get('plan')}, this one is {fingerprint}): an operator, "
            "its arguments or its code have changed. Build the plan as it was; or start a new run with the saved policy "
            "(start_from=)."
        )
    return encoded


def read_manifest(folder: Path) -> dict[str, Any]:  # Any: facts of all kinds
    """What a checkpoint says of itself."""
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
    except FileNotFoundError:
        said = "there is no such folder" if not folder.exists() else f"it has no {MANIFEST}"
        raise CheckpointError(f"{folder} is no checkpoint: {said}.") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"The checkpoint {folder} cannot be read: {error}.") from error
    if not isinstance(manifest, dict) or not isinstance(manifest.get("format"), int):
        raise CheckpointError(f"{folder} is no checkpoint: its {MANIFEST} does not say which format it has.")
    if manifest["format"] > FORMAT:
        raise CheckpointError(
            f"The checkpoint {folder} has format {manifest['format']}, and this version of tflow reads up to {FORMAT}. Update it."
        )
    if manifest.get(OWN_HASH, "") != _own_hash(manifest) and OWN_HASH in manifest:  # older ones lack it
        raise CheckpointError(f"The checkpoint {folder} is damaged: {MANIFEST} is not what was written.")
    return manifest


def read(
    folder: Path, *, wanted: Callable[[Json], Container[str]] | None = None
) -> tuple[dict[str, Any], Encoded]:  # Any: facts of all kinds
    """The manifest and the content of a checkpoint, if it is whole.

    Args:
        folder: The checkpoint.
        wanted: Which files of actors are wanted, given the state; None reads all.
    """
    manifest = read_manifest(folder)
    files = _files_of(folder, manifest)
    try:
        state = json.loads(_content(folder, STATE, files))
        others = [name for name in files if name != STATE and name not in _pages(files)]
        if wanted is not None:
            named = wanted(state)
            others = [name for name in others if name == ARRAYS or name in named]
        arrays = {name: _arrays(folder, name, files) for name in others}
        return manifest, Encoded(state, arrays.pop(ARRAYS), arrays)
    except (ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise CheckpointError(f"The checkpoint {folder} is damaged: {error}.") from error


def check_whole(folder: Path) -> None:
    """Raise unless a checkpoint is what was written. Little of it is in memory at once."""
    files = _files_of(folder, read_manifest(folder))
    for name in files:
        _content(folder, name, files)


def _files_of(folder: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:  # Any: as above
    files = manifest.get("files")
    if not isinstance(files, dict) or not {STATE, ARRAYS} <= files.keys() or any(Path(name).name != name for name in files):
        raise CheckpointError(f"The checkpoint {folder} is damaged: its {MANIFEST} does not name its files.")
    return files


def _pages(files: Mapping[str, Any]) -> set[str]:  # Any: as above
    return {page for facts in files.values() for each in facts.get("pages", {}).values() for page in each["files"]}


def _content(folder: Path, name: str, files: Mapping[str, Any]) -> bytes:  # Any: as above
    """The content of a file, which is hashed first."""
    try:
        held = (folder / name).read_bytes()
    except OSError as error:
        raise CheckpointError(f"The checkpoint {folder} cannot be read: {error}.") from error
    if hashlib.sha256(held).hexdigest() != files[name].get("sha256"):
        raise CheckpointError(f"The checkpoint {folder} is damaged: {name} is not what was written.")
    return held


def _arrays(folder: Path, name: str, files: Mapping[str, Any]) -> list[Array]:  # Any: as above
    """The arrays of a file and of its pages, by their numbers."""
    found = arrays_of(_content(folder, name, files))
    for number, each in files[name].get("pages", {}).items():
        dtype, shape, filled = np.dtype(OWN_TYPES[each["dtype"]]), each["shape"], 0
        if math.prod(shape) * dtype.itemsize > sum(int(files[page]["bytes"]) for page in each["files"]):
            raise ValueError(f"{name} lacks pages of the array {number}")
        array = np.empty(shape, dtype)  # filled page by page: there are no two of them in memory
        for page in each["files"]:
            rows = arrays_of(_content(folder, page, files))[ROWS]
            array[filled : filled + len(rows)] = rows
            filled += len(rows)
        if filled != len(array):
            raise ValueError(f"{name} has {filled} of {len(array)} rows of the array {number}")
        found[number] = array
    return [found[str(number)] for number in range(len(found))]


def arrays_of(content: bytes) -> dict[str, Array]:
    """The arrays of a safetensors file by name, as views of its bytes."""
    (size,) = struct.unpack("<Q", content[:8])
    header: Json = json.loads(content[8 : 8 + size])
    memory = np.frombuffer(content, np.uint8)[8 + size :]
    found: dict[str, Array] = {}
    for name, entry in header.items():
        first, end = entry["data_offsets"]
        found[name] = memory[first:end].view(OWN_TYPES[entry["dtype"]]).reshape(entry["shape"])
    return found


# --------------------------------------------------------------------------- several of them


CHECKPOINTS = "checkpoints"
"""Where run folders have them."""


def checkpoints_in(folder: Path) -> list[Path]:
    """The complete checkpoints in a folder, the oldest first."""
    try:
        names = {each.name.removesuffix(ASIDE).removesuffix(".old") for each in folder.iterdir()}
        found = [each for name in names if (each := whole(folder / name)).is_dir() and (each / MANIFEST).exists()]
    except OSError:
        return []
    return sorted(found, key=lambda each: each.name)


def newest_manifest(folder: Path) -> dict[str, Any]:  # Any: facts of all kinds
    """What the newest checkpoint in a folder says of itself; nothing if none can be read."""
    for each in reversed(checkpoints_in(folder)):
        with suppress(CheckpointError):
            return read_manifest(each)
    return {}


def checkpoint_in(path: Path, refused: Callable[[str], object]) -> Path:
    """The checkpoint at a path, or the newest one that is whole in a run folder; ``refused`` is told why those after it are
    not."""
    if (whole(path) / MANIFEST).exists():
        return whole(path)
    found = checkpoints_in(path / CHECKPOINTS)
    if not found:
        said = "There is no such folder" if not path.exists() else f"It has no {MANIFEST}, and no {CHECKPOINTS}/ with one"
        raise CheckpointError(f"There is no checkpoint in {path}. {said}.")
    reasons = []
    for each in reversed(found):
        try:
            check_whole(each)
        except CheckpointError as error:
            reasons.append(str(error))
        else:
            for reason in reasons:
                refused(f"{reason} The one before is taken: {each}.")
            return each
    raise CheckpointError(" ".join(reasons))
