"""Open every page of the built book in a browser, check it, and keep a picture of it.

Usage: ``python -m tools.screenshots OUT [--site _build/html] [--pages index api ...] [--file]``

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
import json
import sys
from pathlib import Path

from tools.browser import (
    MEASURE,
    SCHEMES,
    WIDTHS,
    all_pages,
    find_browser,
    launched,
    opened,
    problems,
    serve,
    weight,
)


def visit(browser, site: Path, base: str, page: str, scheme: str, width: int, picture: Path):
    """Open one page once; its problems, what it weighed and what it said."""
    with opened(browser, base, page, scheme=scheme, width=width) as (tab, record):
        seen = tab.evaluate(MEASURE)
        if seen["theme"] != scheme:
            record["console"].append(f"theme is {seen['theme']}, asked for {scheme}")
        tab.screenshot(path=picture, full_page=True)
        size = weight(site, base, record["asked"])
        return {
            "page": page,
            "scheme": scheme,
            "width": width,
            "problems": problems(seen, record),
            "formulas": seen["formulas"],
            "images": len(seen["images"]),
            "kib": round((size["raw"] + size["figures"]) / 1024),
            "files": len(set(record["asked"])),
        }


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
    site = options.site.resolve()
    found = all_pages(site)
    pages = options.pages or found
    unknown = [page for page in pages if page not in found]
    if unknown or not pages:
        raise SystemExit(f"no such page below {site}: {', '.join(unknown) or '(none at all)'}")
    options.out.mkdir(parents=True, exist_ok=True)
    base = f"{site.as_uri()}/" if options.file else serve(site)
    report = []
    if find_browser(options.chromium) is None:
        raise SystemExit("no Chromium found; give its path with --chromium")
    with launched(options.chromium) as browser:
        for page in pages:
            for scheme in options.schemes:
                for width in options.widths:
                    picture = options.out / f"{page.replace('/', '-')}_{scheme}_{width}.png"
                    result = visit(browser, site, base, page, scheme, width, picture)
                    report.append(result)
                    state = "FAILED" if result["problems"] else "ok"
                    print(
                        f"{state:7}{page} {scheme} {width}: {result['formulas']} formulas, "
                        f"{result['images']} pictures, {result['kib']} KiB"
                    )
                    for problem in result["problems"]:
                        print(f"       - {problem}")
    (options.out / "report.json").write_text(json.dumps(report, indent=1), encoding="utf8")
    failed = sum(bool(result["problems"]) for result in report)
    print(f"{len(report)} visits, {failed} with problems")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
