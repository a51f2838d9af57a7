"""A real editor: Neovim, without a screen and set up as docs/checking.md says, shows what is wrong, hints, and repairs a plan."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checking.lsp.support import A3C
from tests.checking.support import SCRIPT, write
from tests.checking.test_docs_page import blocks

NVIM = shutil.which("nvim")
SCRIPT_OF_EDITOR = Path(__file__).parent / "editor.lua"


@pytest.mark.skipif(NVIM is None, reason="nvim is not on PATH: apt-get install neovim")
def test_neovim_shows_and_repairs_a_plan(folder: Path) -> None:
    wrong = A3C.replace("        .par_for_each(ComputeGradients())\n", "")
    write(folder, {"plan.py": wrong})
    server = ", ".join(map(json.dumps, [sys.executable, str(SCRIPT), "lsp"]))
    write(folder, {"init.lua": blocks("lua")[1].replace('"tflow", "lsp"', server)})
    command = [str(NVIM), "--headless", "-u", "init.lua", "-n", "-c", f"luafile {SCRIPT_OF_EDITOR}", "-c", "qall!"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    shown = json.loads((folder / "shown.json").read_text())
    (found,) = shown["diagnostics"]
    assert wrong.splitlines()[found["line"]].strip() == "applied = gradients.for_each(ApplyGradients(workers))"
    assert found["source"] == "tflow"
    assert "Did you forget par_for_each(ComputeGradients(...))?" in found["message"]
    hints = {wrong.splitlines()[hint["line"]].strip(): hint["text"] for hint in shown["hints"]}
    assert hints[".gather_async()"] == " Iter[Rollout] · driver · async"
    assert shown["action"] == "Insert par_for_each(ComputeGradients())"
    assert shown["left"] == 0, "what was found is gone"
    assert any(".par_for_each(ComputeGradients())" in line for line in shown["lines"])
    assert (folder / "plan.py").read_text() == wrong, "nothing was saved"
