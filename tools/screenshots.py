"""Open every page of the built book in a browser, check it, and keep a picture of it.

Usage: ``python tools/screenshots.py OUT [--site _build/html] [--pages index api ...] [--file]``

The site is served on the loopback interface (or opened from the file system with ``--file``) and
each page is opened four times: light and dark, 1280 and 390 pixels wide. A page passes if

* nothing it asks for fails, and nothing it asks for lies outside the site;
* the console shows no error and no warning;
* every formula is typeset and none is an error box;
* the page does not scroll sideways;
* every picture says in words what it shows.

The full-page pictures go to ``OUT/<page>_<scheme>_<width>.png``; looking at them is the part that
no check replaces. The exit status is 1 if any page failed. Needs playwright and a Chromium
(``--chromium`` or the first of the usual names on the path).
"""

from __future__ import annotations

import argparse
import functools
import http.server
import json
import shutil
import sys
import threading
from pathlib import Path

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WIDTHS = {1280: 900, 390: 844}
SCHEMES = ("light", "dark")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")

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
    .map(e => e.tagName.toLowerCase() + '.' + e.className);
  return {
    theme: root.dataset.theme,
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


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


def serve(site: Path) -> str:
    """Serve a folder on a free port of the loopback interface; the address of its root."""
    handler = functools.partial(_Quiet, directory=str(site))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/"


def visit(browser, base: str, page: str, scheme: str, width: int, picture: Path) -> dict:
    """Open one page once; its problems, what it weighed and what it said."""
    context = browser.new_context(
        viewport={"width": width, "height": WIDTHS[width]}, color_scheme=scheme
    )
    tab = context.new_page()
    requests: dict[str, list[str]] = {"foreign": [], "failed": [], "console": []}
    weight: dict[str, int] = {}

    def route(handler) -> None:
        address = handler.request.url
        if address.startswith((base, "data:", "blob:")):
            handler.continue_()
        else:
            requests["foreign"].append(address)
            handler.abort()

    def answered(response) -> None:
        if response.status >= 400:
            requests["failed"].append(f"{response.status} {response.url}")
            return
        try:
            weight[response.url] = len(response.body())
        except Exception:  # a redirect, or a body that the browser has dropped already
            weight[response.url] = 0

    tab.route("**/*", route)
    tab.on("response", answered)
    tab.on("requestfailed", lambda request: requests["failed"].append(request.url))
    tab.on("pageerror", lambda error: requests["console"].append(str(error)))
    tab.on(
        "console",
        lambda message: (
            requests["console"].append(message.text)
            if message.type in ("error", "warning")
            else None
        ),
    )
    tab.goto(f"{base}{page}.html", wait_until="load")
    tab.wait_for_function(
        "() => !window.MathJax || !MathJax.startup || !MathJax.startup.promise"
        " || MathJax.startup.promise.then(() => true)"
    )
    tab.wait_for_timeout(300)
    seen = tab.evaluate(MEASURE)
    if seen["theme"] != scheme:
        requests["console"].append(f"theme is {seen['theme']}, asked for {scheme}")
    tab.screenshot(path=picture, full_page=True)
    context.close()
    requests["failed"] = [a for a in requests["failed"] if a not in requests["foreign"]]
    return {
        "page": page,
        "scheme": scheme,
        "width": width,
        "problems": problems(seen, requests),
        "formulas": seen["formulas"],
        "images": len(seen["images"]),
        "kib": round(sum(weight.values()) / 1024),
        "files": len(weight),
    }


def find_browser(given: str | None) -> str:
    """The path of a Chromium, or an error that says how to name one."""
    for name in [given] if given else BROWSERS:
        path = shutil.which(name)
        if path:
            return path
    raise SystemExit("no Chromium found; give its path with --chromium")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("out", type=Path, help="folder for the pictures and report.json")
    parser.add_argument("--site", type=Path, default=Path("_build/html"))
    parser.add_argument("--pages", nargs="*", help="names without .html; all pages by default")
    parser.add_argument("--schemes", nargs="*", default=SCHEMES, choices=SCHEMES)
    parser.add_argument("--widths", nargs="*", type=int, default=list(WIDTHS), choices=WIDTHS)
    parser.add_argument("--file", action="store_true", help="open from the file system")
    parser.add_argument("--chromium", help="path or name of the browser")
    options = parser.parse_args(arguments)
    from playwright.sync_api import sync_playwright

    site = options.site.resolve()
    found = sorted(
        path.relative_to(site).with_suffix("").as_posix()
        for path in site.rglob("*.html")
        if "_static" not in path.parts
    )
    pages = options.pages or found
    unknown = [page for page in pages if page not in found]
    if unknown or not pages:
        raise SystemExit(f"no such page below {site}: {', '.join(unknown) or '(none at all)'}")
    options.out.mkdir(parents=True, exist_ok=True)
    base = f"{site.as_uri()}/" if options.file else serve(site)
    report = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_browser(options.chromium), args=FLAGS
        )
        for page in pages:
            for scheme in options.schemes:
                for width in options.widths:
                    picture = options.out / f"{page.replace('/', '-')}_{scheme}_{width}.png"
                    result = visit(browser, base, page, scheme, width, picture)
                    report.append(result)
                    state = "FAILED" if result["problems"] else "ok"
                    print(
                        f"{state:7}{page} {scheme} {width}: {result['formulas']} formulas, "
                        f"{result['images']} pictures, {result['kib']} KiB"
                    )
                    for problem in result["problems"]:
                        print(f"       - {problem}")
        browser.close()
    (options.out / "report.json").write_text(json.dumps(report, indent=1), encoding="utf8")
    failed = sum(bool(result["problems"]) for result in report)
    print(f"{len(report)} visits, {failed} with problems")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
