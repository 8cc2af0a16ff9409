"""Draw ``book/_static/social-card.png``, which sites show beside a link to the book.

Usage: ``python -m tools.social_card``, after a change of the logo or the title. Needs a browser.
"""

from __future__ import annotations

from tools.browser import launched
from tools.notebooks import BOOK

SIZE = {"width": 1200, "height": 630}
PAGE = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; background: #fff; color: #222; font-family: "DejaVu Sans", sans-serif;
  display: flex; flex-direction: column; align-items: center; justify-content: center;
  height: 630px; gap: 40px; }}
svg {{ width: 480px; height: 224px; }} h1 {{ font-size: 84px; margin: 0; }}
p {{ font-size: 34px; margin: 0; }}
</style>{logo}<h1>Where Tokens Are</h1>
<p>Positional encodings, from sinusoids to long context</p>"""


def main() -> int:
    """Write the picture."""
    logo = (BOOK / "_static" / "logo.svg").read_text(encoding="utf8")
    with launched() as browser:
        page = browser.new_page(viewport=SIZE)
        page.set_content(PAGE.format(logo=logo))
        page.screenshot(path=BOOK / "_static" / "social-card.png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
