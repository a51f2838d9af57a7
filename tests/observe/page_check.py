"""What must be true of every report, checked without a browser: well-formed, self-contained, legible in both colour schemes."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

from tflow.drawing.wrapping import width

VOID = {"meta", "br", "img", "input", "link", "hr"}
KNOWN = {
    "html", "head", "body", "title", "style", "script", "main", "header", "footer", "section", "h1", "h2", "h3", "p", "ul", "li",
    "b", "i", "span", "div", "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "svg", "g", "path", "text",
    "tspan", "rect", "line", "circle", "polygon", *VOID,
}  # fmt: skip
CLOSES_P = {"p", "div", "ul", "table", "section", "h1", "h2", "h3", "details", "main", "header", "footer"}
"""Not allowed inside a paragraph: a browser would end it there."""


class Page(HTMLParser):
    """A page, read strictly."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == [], f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in KNOWN, f"<{tag}>"
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice: {names}"
        assert not any(name.startswith("on") for name in names), "no script in attributes"
        if tag in CLOSES_P:
            assert "p" not in self.open, f"<{tag}> inside <p>"
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1:] == [tag], f"</{tag}> closes what is not open: {self.open}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("style", "script"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def check_page(text: str) -> Page:
    """A page that is right."""
    assert text.startswith("<!DOCTYPE html>")
    page = Page(text)
    kinds = [tag for tag, _ in page.tags]
    assert [kinds.count(tag) for tag in ("html", "head", "body", "main", "h1", "script")] == [1] * 6
    check_references(page, text)
    check_charts(text)
    for _, attributes in page.tags:
        assert "undefined" not in attributes.get("class", "")
    styled = set(re.findall(r"\.([a-z][\w-]*)", "".join(re.findall(r"<style>(.*?)</style>", text, re.DOTALL))))
    used = {name for _, attributes in page.tags for name in attributes.get("class", "").split()}
    assert used - styled <= {"node", "edge", "right", "chart"}, used - styled
    return page


def check_references(page: Page, text: str) -> None:
    """Nothing is loaded from anywhere."""
    for tag, attributes in page.tags:
        for name in ("src", "href", "xlink:href", "action", "data", "srcset", "poster"):
            assert attributes.get(name, "#").startswith(("#", "data:")), f"<{tag} {name}={attributes[name]}>"
    assert "@import" not in text
    assert all(each.startswith("#") for each in re.findall(r"url\(([^)]*)\)", text))
    policy = next(
        attributes["content"] for tag, attributes in page.tags if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none';")
    assert "http" not in policy


def check_charts(text: str) -> None:
    """Every picture is well-formed by itself, and no text in a chart leaves it."""
    for drawn in re.findall(r"<svg\b.*?</svg>", text, re.DOTALL):
        root = ET.fromstring(drawn)
        wide = float(root.attrib["viewBox"].split()[2])
        for each in root.iter("text") if root.attrib.get("class") == "chart" else ():
            room, x = width([each.text or ""], float(each.attrib["font-size"])), float(each.attrib["x"])
            left = {"middle": x - room / 2, "end": x - room}.get(each.attrib.get("text-anchor", ""), x)
            assert left >= -0.5, each.text
            assert left + room <= wide + 0.5, each.text


def luminance(colour: str) -> float:
    """Of a colour as ``#rrggbb``, after WCAG 2."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """From 1, the same, to 21, black on white."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)
