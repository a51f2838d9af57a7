"""A page in a real browser: Chromium without a window and without a network, and what it says of the page."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any, Literal

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
HOW = (
    "Reports are looked at in Chromium, and there is none here. On Debian and Ubuntu: apt-get install chromium. Or say where it "
    "is: CHROMIUM=/path/to/chromium make test-full."
)
Scheme = Literal["light", "dark"]
PREFERRED: dict[Scheme, int] = {"dark": 0, "light": 1}
PROBE = """
<script>
addEventListener('load', () => {
  const wide = innerWidth, found = {wide, resources: performance.getEntriesByType('resource').length, outside: [], texts: []};
  found.scroll = document.documentElement.scrollWidth;
  found.background = getComputedStyle(document.body).backgroundColor;
  document.querySelectorAll('details').forEach(each => each.open = true);
  document.querySelectorAll('main *').forEach(each => {
    const box = each.getBoundingClientRect();
    if (box.width && box.right > wide + 1 && !each.closest('.scroll'))
      found.outside.push(each.tagName + ' ' + each.textContent.slice(0, 40));
  });
  document.querySelectorAll('svg.chart').forEach(svg => {
    const room = svg.viewBox.baseVal;
    if (!svg.getBoundingClientRect().width) return;
    svg.querySelectorAll('text').forEach(text => {
      const box = text.getBBox();
      if (box.x < -1 || box.x + box.width > room.width + 1 || box.y < -1 || box.y + box.height > room.height + 1)
        found.outside.push('chart: ' + text.textContent);
    });
  });
  document.querySelectorAll('.plan g.node').forEach(node => {
    const shape = node.querySelector('rect:last-of-type, path')?.getBBox(), text = node.querySelector('text')?.getBBox();
    if (shape && shape.width && text && text.width > node.getBBox().width) found.outside.push('plan: ' + node.textContent);
  });
  document.querySelectorAll('td.code:first-child').forEach(each => {
    const range = document.createRange();
    range.selectNodeContents(each);
    if (range.getClientRects().length > 1) found.outside.push('name in pieces: ' + each.textContent);
  });
  document.querySelectorAll('h1,h2,h3,p,td,th,li,summary,.code,.state,.chart text').forEach(each => {
    const size = each.getBoundingClientRect(), style = getComputedStyle(each);
    if (!size.width || !each.textContent.trim()) return;
    let ground = each, colour = 'rgba(0, 0, 0, 0)';
    while (ground && colour === 'rgba(0, 0, 0, 0)') {
      colour = getComputedStyle(ground).backgroundColor; ground = ground.parentElement;
    }
    const svg = each.ownerSVGElement, ink = svg ? style.fill : style.color;
    const scale = svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
    found.texts.push([ink, colour, parseFloat(style.fontSize) * scale]);
  });
  const chart = [...document.querySelectorAll('svg.chart')].find(each => each.getBoundingClientRect().width);
  if (chart) {
    const box = chart.getBoundingClientRect();
    chart.dispatchEvent(new PointerEvent('pointermove', {clientX: box.left + box.width / 2, clientY: box.top + box.height / 2}));
    const tip = [...document.querySelectorAll('.tip')].find(each => !each.hidden);
    found.tip = tip ? tip.textContent : '';
    chart.dispatchEvent(new PointerEvent('pointerleave'));
    found.left = [...document.querySelectorAll('.tip')].every(each => each.hidden);
  }
  const out = document.createElement('pre'); out.id = 'probe'; out.textContent = JSON.stringify(found); document.body.append(out);
});
</script>
"""


def chromium() -> str:
    """The program; a sentence that says how to get it if there is none."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.fail(HOW, pytrace=False)
    return found


def looked_at(text: str, place: Path, *, wide: int, scheme: Scheme) -> dict[str, Any]:  # Any: JSON
    """What a browser finds in a page."""
    file = place / f"page-{wide}-{scheme}.html"
    file.write_text(text.replace("</body>", f"{PROBE}</body>"), encoding="utf-8")
    command = [
        chromium(),
        "--headless",
        "--no-sandbox",  # the page is ours, and in containers there is none
        "--disable-gpu",
        f"--user-data-dir={place / 'profile'}",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--blink-settings=preferredColorScheme={PREFERRED[scheme]}",
        f"--window-size={wide},1200",
        "--virtual-time-budget=5000",
        "--dump-dom",
        file.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    said = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout, re.DOTALL)
    assert said is not None, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(unescape(said.group(1)))  # Any: JSON
    return found


def hex_of(colour: str) -> str:
    """``rgb(1, 2, 3)`` as ``#010203``."""
    parts = [int(float(each)) for each in re.findall(r"[\d.]+", colour)[:3]]
    return "#" + "".join(f"{each:02x}" for each in parts)
