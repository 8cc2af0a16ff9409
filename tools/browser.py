"""Open pages of the built book in a real browser, and say what is wrong with them.

``survey`` opens every page once, in each colour scheme and width, and collects what
``tests/browser`` then asks about: requests, console messages, formulas, pictures, width, weight
and what axe-core finds. ``tools/screenshots.py`` uses the same checks and keeps pictures.

The browser is a Chromium of this machine (``chromium``, ``google-chrome`` or kin on the path, or
the one that ``POSENC_CHROMIUM`` names); nothing is downloaded.
"""

from __future__ import annotations

import functools
import gzip
import http.server
import importlib.util
import multiprocessing
import os
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tools.notebooks import ROOT

SITE = ROOT / "_build" / "html"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",  # containers give it too little room
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WIDTHS = {1280: 900, 390: 844}
SCHEMES = ("light", "dark")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
JOBS = 2
# Milliseconds. Generous: on a busy machine a page with two hundred formulas takes its time.
PATIENCE = 120_000
# The theme decides 300 ms after a change of width which boxes scroll and take the focus.
AFTER_RESIZE = 500

SETTLED = (
    "() => !window.MathJax || !MathJax.startup || !MathJax.startup.promise"
    " || MathJax.startup.promise.then(() => true)"
)

# What the page says about itself once scripts have run.
MEASURE = """() => {
  const root = document.documentElement;
  const width = root.clientWidth;
  const inOwnBox = e => {
    for (let p = e.parentElement; p && p !== document.body; p = p.parentElement) {
      const style = getComputedStyle(p);
      if (style.overflowX !== 'visible') return true;
    }
    return false;
  };
  const wide = [...document.querySelectorAll('.bd-article *')]
    .filter(e => e.getBoundingClientRect().right > width + 1 && !inOwnBox(e))
    .slice(0, 5)
    .map(e => e.tagName.toLowerCase() + '.' + (e.getAttribute('class') || ''));
  // What nobody can reach: past the edge of the screen, or cut off by a box that does not scroll.
  const lost = [];
  const kinds = 'mjx-container, img, svg, table, pre, label, summary';
  for (const e of document.querySelectorAll('.bd-article :is(' + kinds + ')')) {
    const box = e.getBoundingClientRect();
    if (!e.checkVisibility() || !box.width) continue;
    let out = box.right > width + 1 || box.left < -1;
    for (let p = e; p && p !== document.body; p = p.parentElement) {
      const how = getComputedStyle(p).overflowX, edge = p.getBoundingClientRect();
      if (how === 'auto' || how === 'scroll') {
        out = edge.right > width + 1 || edge.left < -1;
        break;
      }
      if ((how === 'hidden' || how === 'clip') && box.right > edge.right + 1) {
        out = true;
        break;
      }
    }
    if (out) lost.push(e.tagName.toLowerCase() + ' ' + e.textContent.trim().slice(0, 60));
  }
  return {
    theme: root.dataset.theme,
    lost: lost.slice(0, 5),
    scrollWidth: root.scrollWidth,
    clientWidth: width,
    wide,
    formulas: document.querySelectorAll('.math').length,
    raw: [...document.querySelectorAll('.math')].filter(e => !e.querySelector('mjx-container'))
      .map(e => e.textContent.trim().slice(0, 60)),
    broken: [...document.querySelectorAll('mjx-merror, [data-mjx-error]')]
      .map(e => e.textContent.trim().slice(0, 60)),
    images: [...document.querySelectorAll('img')].map(e => ({
      src: e.getAttribute('src'), alt: e.getAttribute('alt'), drawn: e.naturalWidth > 0,
      hidden: getComputedStyle(e).display === 'none',
    })),
    broken_links: [...document.querySelectorAll('a[href^="#"]')]
      .map(e => e.getAttribute('href').slice(1))
      .filter(id => id && !document.getElementById(decodeURIComponent(id))),
  };
}"""

# What a reader can open: questions, folded code and folded notes.
UNFOLD = """() => {
  document.querySelectorAll('.bd-article details').forEach(e => { e.open = true; });
  document.querySelectorAll('.bd-article .toggle-hidden .toggle-button').forEach(e => e.click());
}"""

# One visible text element for each combination of colour, background, size and weight: the
# contrast of the thousands of others is the same. Formulas inherit their colour from the text.
TEXTS = """() => {
  const behind = e => {
    for (; e; e = e.parentElement) {
      const s = getComputedStyle(e);
      if (s.backgroundColor !== 'rgba(0, 0, 0, 0)' || s.backgroundImage !== 'none') {
        return s.backgroundColor + s.backgroundImage;
      }
    }
  };
  const found = new Map();
  for (const e of document.querySelectorAll('body *')) {
    if (e.closest('mjx-container') || !e.checkVisibility()) continue;
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
    const box = e.getBoundingClientRect();
    if (!box.width || !box.height) continue;
    const s = getComputedStyle(e);
    const key = [s.color, s.fontSize, s.fontWeight, s.opacity, behind(e)].join();
    if (!found.has(key)) found.set(key, e);
  }
  return [...found.values()];
}"""
AXE_RUN = (
    "contrast => axe.run(contrast ? {include: ("
    + TEXTS
    + """)()} : {exclude: [['mjx-container']]}, {
    resultTypes: ['violations'], preload: false,
    ...(contrast ? {runOnly: ['color-contrast']}
                 : {rules: {'color-contrast': {enabled: false}}}),
  },
).then(r => r.violations.flatMap(v => v.nodes.map(n => `${v.id}: ${n.html.slice(0, 160)}`)))"""
)


def find_browser(given: str | None = None) -> str | None:
    """The path of a Chromium, or None.

    Args:
        given: a name or path, tried alone; by default ``POSENC_CHROMIUM``, then the usual names.
    """
    given = given or os.environ.get("POSENC_CHROMIUM")
    for name in [given] if given else BROWSERS:
        if path := shutil.which(name):
            return path
    return None


def reason_to_skip() -> str | None:
    """Why no page can be opened here, or None if one can."""
    if importlib.util.find_spec("playwright") is None:
        return "playwright is not installed (make install)"
    if find_browser() is None:
        return f"no browser: none of {', '.join(BROWSERS)} is on the path (apt install chromium)"
    return None


def axe_script() -> str:
    """The text of axe-core, out of an installed package."""
    spec = importlib.util.find_spec("axe_playwright_python")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("axe-playwright-python is not installed (make install)")
    return Path(spec.submodule_search_locations[0], "axe.min.js").read_text(encoding="utf8")


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


def serve(site: Path) -> str:
    """Serve a folder on a free port of the loopback interface; the address of its root."""
    handler = functools.partial(_Quiet, directory=str(site))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/"


def all_pages(site: Path) -> list[str]:
    """Names of all pages of a built book, without ``.html``."""
    return sorted(
        path.relative_to(site).with_suffix("").as_posix()
        for path in site.rglob("*.html")
        if "_static" not in path.parts
    )


def built_pages() -> list[str]:
    """The pages of the book as it is built now; none if it is not."""
    return all_pages(SITE) if (SITE / "index.html").is_file() else []


@contextmanager
def launched(program: str | None = None) -> Iterator[Any]:
    """A running browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(program), args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(
    browser: Any, base: str, page: str, *, scheme: str = "light", width: int = 1280
) -> Iterator[tuple[Any, dict[str, list[str]]]]:
    """A tab with a page in it, typeset, and what it asked for and complained about.

    The record has the addresses asked for under ``"asked"``, those outside the site under
    ``"foreign"`` (they are not let through), failures under ``"failed"``, and errors and warnings
    under ``"console"``.
    """
    context = browser.new_context(
        viewport={"width": width, "height": WIDTHS[width]}, color_scheme=scheme
    )
    context.set_default_timeout(PATIENCE)
    tab = context.new_page()
    record: dict[str, list[str]] = {"asked": [], "foreign": [], "failed": [], "console": []}

    def route(handler: Any) -> None:
        address = handler.request.url
        if address.startswith((base, "data:", "blob:")):
            record["asked"].append(address)
            handler.continue_()
        else:
            record["foreign"].append(address)
            handler.abort()

    def failed(request: Any) -> None:
        if request.url not in record["foreign"]:
            record["failed"].append(request.url)

    def answered(response: Any) -> None:
        if response.status >= 400:
            record["failed"].append(f"{response.status} {response.url}")

    def said(message: Any) -> None:
        if message.type in ("error", "warning"):
            record["console"].append(message.text)

    tab.route("**/*", route)
    tab.on("response", answered)
    tab.on("requestfailed", failed)
    tab.on("pageerror", lambda error: record["console"].append(str(error)))
    tab.on("console", said)
    try:
        tab.goto(f"{base}{page}.html", wait_until="load")
        tab.wait_for_function(SETTLED)
        tab.wait_for_timeout(300)
        yield tab, record
    finally:
        context.close()


def problems(seen: dict, requests: dict[str, list[str]]) -> list[str]:
    """What is wrong with a page, in words; empty if nothing is.

    Args:
        seen: What ``MEASURE`` returned.
        requests: The addresses under ``"foreign"`` and ``"failed"``, the messages under
            ``"console"``.
    """
    found = [
        f"{kind}: {item}" for kind in ("foreign", "failed", "console") for item in requests[kind]
    ]
    if seen["scrollWidth"] > seen["clientWidth"]:
        found.append(f"scrolls sideways: {seen['scrollWidth']} > {seen['clientWidth']} px")
    found += [f"wider than the page: {element}" for element in seen["wide"]]
    found += [f"cut off: {what}" for what in seen["lost"]]
    found += [f"formula not typeset: {text}" for text in seen["raw"]]
    found += [f"formula with an error: {text}" for text in seen["broken"]]
    found += [f"link to a missing anchor: #{anchor}" for anchor in seen["broken_links"]]
    for image in seen["images"]:
        alt = (image["alt"] or "").strip()
        if not alt or alt.startswith(("_images/", "../_images/")):
            found.append(f"picture without words: {image['src']}")
        if not image["drawn"] and not image["hidden"]:
            found.append(f"picture not drawn: {image['src']}")
    return found


def weight(site: Path, base: str, asked: list[str]) -> dict[str, int]:
    """Bytes that a page needs: ``"raw"`` and ``"gzip"`` without its figures, and ``"figures"``."""
    total = {"raw": 0, "gzip": 0, "figures": 0}
    for address in sorted({a.split("?")[0].split("#")[0] for a in asked if a.startswith(base)}):
        path = site / unquote(urlsplit(address).path).lstrip("/")
        if not path.is_file():
            continue
        size = path.stat().st_size
        if "_images" in path.parts:
            total["figures"] += size
            continue
        total["raw"] += size
        packed = path.suffix in (".png", ".woff", ".woff2", ".jpg", ".webp")
        total["gzip"] += size if packed else _zipped(path)
    return total


@functools.cache
def _zipped(path: Path) -> int:
    return len(gzip.compress(path.read_bytes(), 6))


def visit(browser: Any, site: Path, base: str, page: str, axe: str | None) -> dict[str, Any]:
    """Open a page once and look at it in every scheme and width.

    On the narrow screen everything that can be opened is open, so that the questions' answers and
    the folded code are looked at as well.

    Returns:
        Under ``"problems"`` and ``"axe"`` a list of texts for each ``"scheme width"``, under
        ``"weight"`` what :func:`weight` returns, ``"formulas"`` and ``"explorers"`` counts.
    """
    result: dict[str, Any] = {"page": page, "problems": {}, "axe": {}}
    with opened(browser, base, page) as (tab, record):
        # Before it changes size: what a reader's first look needs.
        result["weight"] = weight(site, base, record["asked"])
        # A colour half-way between two schemes is nobody's colour.
        tab.add_style_tag(content="*, ::before, ::after { transition: none !important; }")
        if axe:
            tab.evaluate(axe)
        for width, height in WIDTHS.items():
            if width == min(WIDTHS):
                tab.evaluate(UNFOLD)  # before the theme looks for boxes that scroll
            tab.set_viewport_size({"width": width, "height": height})
            tab.wait_for_timeout(AFTER_RESIZE)
            for scheme in SCHEMES:
                tab.emulate_media(color_scheme=scheme)
                tab.wait_for_function(
                    "s => (document.documentElement.dataset.theme || s) === s", arg=scheme
                )
                seen = tab.evaluate(MEASURE)
                found = problems(seen, record)
                for kind in ("foreign", "failed", "console"):
                    record[kind].clear()  # said once
                result["problems"][f"{scheme} {width}"] = found
                if axe:
                    # A scheme changes colours and nothing else: the other rules need one of them.
                    passes = (True, False) if scheme == SCHEMES[0] else (True,)
                    result["axe"][f"{scheme} {width}"] = [
                        text for contrast in passes for text in tab.evaluate(AXE_RUN, contrast)
                    ]
        result["formulas"] = seen["formulas"]
        result["explorers"] = tab.locator(".posenc-explorer").count()
    return result


def _visit_all(site: Path, base: str, pages: list[str], axe: str | None) -> list[dict[str, Any]]:
    with launched() as browser:
        return [visit(browser, site, base, page, axe) for page in pages]


def survey(site: Path, pages: list[str], *, jobs: int = JOBS) -> dict[str, dict[str, Any]]:
    """Visit pages in some browsers at a time; what :func:`visit` returns, by page."""
    base, axe = serve(site), axe_script()
    shares = [share for share in (pages[start::jobs] for start in range(jobs)) if share]
    # New processes rather than forks: this one has a thread that serves the pages.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max(1, len(shares)), mp_context=context) as pool:
        done = pool.map(
            _visit_all, *zip(*((site, base, share, axe) for share in shares), strict=True)
        )
        return {result["page"]: result for results in done for result in results}
