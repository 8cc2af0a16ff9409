"""The rendered book's sources: the parts agree with each other, and the local extension works.

Nothing here builds the book; ``make test`` does that in a step of its own, with every warning an
error.
"""

from __future__ import annotations

import cmath
import importlib.util
import json
import math
import re
import zlib
from itertools import permutations
from pathlib import Path

import pytest
import torch
import yaml
from from_file import load
from sphinx.errors import ExtensionError

ROOT = Path(__file__).resolve().parents[1]
BOOK = ROOT / "book"


CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf8"))
TOC = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf8"))
PAGES = [chapter["file"] for part in TOC["parts"] for chapter in part["chapters"]]
CHAPTERS = [page for page in PAGES if re.match(r"\d\d-", page)]


def source(page: str) -> Path:
    """The source file of a page."""
    found = [BOOK / f"{page}{end}" for end in (".ipynb", ".md") if (BOOK / (page + end)).is_file()]
    assert len(found) == 1, f"{page}: expected one source file, found {found}"
    return found[0]


def text(page: str) -> str:
    """The Markdown of a page, all cells of a notebook joined."""
    path = source(page)
    content = path.read_text(encoding="utf8")
    if path.suffix == ".md":
        return content
    cells = json.loads(content)["cells"]
    return "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


ALL_PAGES = [TOC["root"], *PAGES]


# ------------------------------------------------------------------------ the parts agree


@pytest.mark.parametrize("page", ALL_PAGES)
def test_every_page_of_the_contents_exists(page):
    assert source(page).is_file()


def test_every_chapter_is_in_the_contents_in_order():
    on_disk = sorted(path.stem for path in BOOK.glob("[0-9][0-9]-*.ipynb"))
    assert on_disk == CHAPTERS


def test_landing_page_links_every_chapter_in_order():
    linked = re.findall(r"\{doc\}`(?:[^`<]*<)?([\w-]+)>?`", text("index"))
    assert [page for page in linked if page in CHAPTERS] == CHAPTERS


@pytest.mark.parametrize("page", ALL_PAGES)
def test_doc_links_lead_to_pages(page):
    for target in re.findall(r"\{doc\}`(?:[^`<]*<)?([\w/-]+)>?`", text(page)):
        assert target in ALL_PAGES, f"{page} links to {target}, which is not in _toc.yml"


def test_address_of_the_repository_stands_in_one_place():
    url = CONFIG["repository"]["url"]
    assert re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+", url)
    assert (ROOT / "_config.yml").read_text(encoding="utf8").count(url) == 1
    owner = url.split("/")[-2]
    static = [path for path in BOOK.glob("_static/*") if path.suffix != ".png"]
    ours = [*BOOK.glob("*.md"), *BOOK.glob("_ext/*.py"), *static]
    for path in [*ours, ROOT / "tools" / "screenshots.py", ROOT / "tools" / "make_inventory.py"]:
        assert f"github.com/{owner}" not in path.read_text(encoding="utf8"), path.name


def test_outputs_are_shown_as_they_are_in_the_files():
    assert CONFIG["execute"]["execute_notebooks"] == "off"
    assert CONFIG["only_build_toc_files"] is True
    assert CONFIG["repository"]["path_to_book"] == "book"


def bibliography_keys() -> list[str]:
    return re.findall(r"^@\w+\{([^,]+),", (BOOK / "references.bib").read_text("utf8"), re.M)


def test_bibliography_lists_each_key_once_and_names_it_at_the_top():
    keys = bibliography_keys()
    assert len(keys) == len(set(keys))
    head = (BOOK / "references.bib").read_text("utf8").split("\n@", 1)[0]
    listed = set(re.findall(r"\b[a-z]+\d{4}\w+", head))
    assert listed == set(keys)


@pytest.mark.parametrize("page", ALL_PAGES)
def test_cited_works_are_in_the_bibliography(page):
    cited = re.findall(r"\{cite(?::\w+)?\}`([^`]+)`", text(page))
    keys = {key.strip() for group in cited for key in group.split(",")}
    assert keys <= set(bibliography_keys())


def labels(page: str) -> list[str]:
    """The targets that a page defines: headings, equations, theorems, figures of cells."""
    path = source(page)
    words = text(page)
    found = re.findall(r"^\(([\w-]+)\)=$", words, re.M)
    found += re.findall(r"^\$\$ ?\(([\w-]+)\)$", words, re.M)
    found += re.findall(r"^:(?:label|name): ([\w-]+)$", words, re.M)
    if path.suffix == ".ipynb":
        for cell in json.loads(path.read_text(encoding="utf8"))["cells"]:
            figure = cell["metadata"].get("mystnb", {}).get("figure", {})
            found += [figure["name"]] if "name" in figure else []
    return found


def test_no_label_is_defined_twice():
    everywhere = [(label, page) for page in ALL_PAGES for label in labels(page)]
    names = [label for label, _ in everywhere]
    twice = sorted((label, page) for label, page in everywhere if names.count(label) > 1)
    assert not twice


@pytest.mark.parametrize("page", ALL_PAGES)
def test_pages_describe_themselves_to_search_engines(page):
    path = source(page)
    content = path.read_text(encoding="utf8")
    if path.suffix == ".ipynb":
        meta = json.loads(content)["metadata"].get("myst", {})
    else:
        meta = yaml.safe_load(content.split("---\n")[1])["myst"]
    for name in ("description", "og:description"):
        assert 40 <= len(meta["html_meta"][name]) <= 300


@pytest.mark.parametrize("page", [page for page in ALL_PAGES if source(page).suffix == ".md"])
def test_figures_of_text_pages_say_what_one_sees(page):
    for body in re.findall(r":::\{figure\}.*?\n(.*?)\n:::", text(page), re.S):
        alt = re.search(r"^:alt: (.+)$", body, re.M)
        assert alt and len(alt[1]) > 60
        assert re.search(r"^:name: fig-", body, re.M)


def test_static_files_ask_no_other_site_for_anything():
    for path in BOOK.glob("_static/*"):
        if path.suffix == ".png":
            continue
        content = path.read_text(encoding="utf8").replace("http://www.w3.org/", "")
        assert "http" not in content and "@import" not in content, path.name


def test_api_page_covers_the_package_in_reading_order():
    page = text("api")
    documented = re.findall(r"^\.\. automodule:: posenc_tutorial\.(\w+)$", page, re.M)
    assert len(documented) == len(set(documented))
    package = ROOT / "posenc_tutorial"
    modules = {p.stem for p in package.glob("*.py") if not p.stem.startswith("_")}
    modules |= {p.parent.name for p in package.glob("*/__init__.py")}
    assert set(documented) == modules
    core = [
        "frequencies",
        "encoding",
        "attention",
        "learned",
        "sinusoidal",
        "relative",
        "alibi",
        "rope",
        "context_extension",
        "hf_config",
    ]
    assert documented[: len(core)] == core


@pytest.mark.parametrize("folder", ["claims", "plots"])
def test_api_page_covers_every_chapter(folder):
    found = re.findall(rf"^\.\. automodule:: posenc_tutorial\.{folder}\.(\w+)$", text("api"), re.M)
    modules = (ROOT / "posenc_tutorial" / folder).glob("[a-z]*.py")
    assert sorted(found) == sorted(path.stem for path in modules)


def test_every_name_of_the_package_root_is_on_the_api_page():
    import posenc_tutorial

    page = text("api")
    for name in posenc_tutorial.__all__:
        module = getattr(posenc_tutorial, name).__module__
        if module == "posenc_tutorial":
            assert f"autofunction:: {name}" in page
        else:
            assert f"automodule:: {module}\n" in page, f"{name} is defined in {module}"
        assert getattr(posenc_tutorial, name).__doc__


# ------------------------------------------------------------------------ inventories


make_inventory = load(ROOT / "tools" / "make_inventory.py")


@pytest.mark.parametrize("project", make_inventory.NAMES)
def test_inventory_file_holds_what_its_table_says(project):
    data = (BOOK / "inv" / f"{project}.inv").read_bytes()
    head, packed = data[: data.index(b"zlib.\n") + 6], data[data.index(b"zlib.\n") + 6 :]
    fresh = make_inventory.inventory(project)
    assert fresh.startswith(head)
    assert zlib.decompress(packed) == zlib.decompress(fresh[len(head) :])
    assert CONFIG["sphinx"]["config"]["intersphinx_mapping"][project][1] == f"inv/{project}.inv"


def test_sphinx_reads_the_inventories():
    from sphinx.util.inventory import InventoryFile

    with (BOOK / "inv" / "torch.inv").open("rb") as stream:
        read = InventoryFile.load(stream, "https://example.org", lambda *parts: "/".join(parts))
    assert read["py:class"]["torch.Tensor"][2].endswith("tensors.html#torch.Tensor")


# ------------------------------------------------------------------------ the local extension


book_fixes = load(BOOK / "_ext" / "book_fixes.py")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('<p>a</p>\n<script src="_static/scripts/fontawesome.js?digest=1"></script>', "<p>a</p>"),
        ('<p>a</p>\n<link rel="preload" href="../_static/scripts/fontawesome.js">', "<p>a</p>"),
        (
            '<button class="btn btn-sm search-button-field" title="Search" aria-label="Search">',
            '<button class="btn btn-sm search-button-field" title="Search">',
        ),
        ('<summary aria-label="Toggle hidden content">', "<summary>"),
        (
            '<div class="sidebar-primary-items__start sidebar-primary__section">',
            '<div role="region" aria-label="Book" '
            'class="sidebar-primary-items__start sidebar-primary__section">',
        ),
        ('<div role="doc-biblioentry">', '<div role="listitem">'),
        ("<main><h1> </h1></main>", "<main></main>"),
        ("<h1>Title</h1>", "<h1>Title</h1>"),
        (
            '<meta content="Own." name="og:description" />\n'
            '<meta property="og:description" content="First words..." />',
            '<meta property="og:description" content="Own." />',
        ),
        (
            "<title>猫</title><body><p alt='猫'>a 猫追狗 b</p><script>'狗'</script></body>",
            "<title>猫</title><body><p alt='猫'>a <span lang=\"zh\">猫追狗</span> b</p>"
            "<script>'狗'</script></body>",
        ),
        ('<tr><th class="head"><p></p></th></tr>', "<tr><td></td></tr>"),
        ('<th class="head stub"><p>day</p></th>', '<th class="head stub"><p>day</p></th>'),
        ('<link rel="stylesheet" href="_static/sphinx-design.min.css?v=6a" />', ""),
        ('<script data-x="y" src="_static/design-tabs.js?v=fc"></script>', ""),
        ('<p>a</p>\n<script src="searchindex.js"></script>', "<p>a</p>"),
        (
            '<script src="searchindex.js"></script><div id="search-results"></div>',
            '<script src="searchindex.js"></script><div id="search-results"></div>',
        ),
        (
            '(<dl>\n<dd><em class="sig-param">a</em>,</dd>\n</dl>)<dl><dt>b</dt><dd>c</dd></dl>',
            '(<span class="sig-lines">\n<span class="sig-line"><em class="sig-param">a</em>,</span>'
            "\n</span>)<dl><dt>b</dt><dd>c</dd></dl>",
        ),
        (
            '<script defer="defer" src="_static/mathjax/tex-chtml-full.js?v=1"></script>',
            "",
        ),
        (
            '<script src="_static/mathjax/tex-chtml-full.js"></script><p class="math notranslate">',
            '<script src="_static/mathjax/tex-chtml-full.js"></script><p class="math notranslate">',
        ),
    ],
)
def test_page_fixes(before, after):
    assert book_fixes.fix_page(before) == after
    assert book_fixes.fix_page(after) == after


def test_the_search_script_is_mended_once_and_another_one_is_refused():
    theme = Path(importlib.util.find_spec("sphinx").origin).parent / "themes" / "basic"
    script = (theme / "static" / "searchtools.js").read_text(encoding="utf8")
    mended = book_fixes.fix_search(script)
    assert mended != script and 'closest("section, main")' in mended
    assert book_fixes.fix_search(mended) == mended
    with pytest.raises(ExtensionError, match="searchtools.js"):
        book_fixes.fix_search("const Search = {};")


@pytest.mark.parametrize(
    "alt",
    [
        "",
        "  ",
        "../_images/3945fc.png",
        "_images/3945fc.png",
        "decay.svg",
        "figures/decay.png",
    ],
)
def test_a_picture_without_words_is_found(alt):
    page = f'<p><img src="a.png" alt="{alt}"><img src="b.png" alt="A wave that fades."></p>'
    assert book_fixes.images_without_alt(page) == ["a.png"]


def test_a_picture_without_the_attribute_is_found_and_one_with_words_is_not():
    assert book_fixes.images_without_alt('<img src="a.png"/>') == ["a.png"]
    assert book_fixes.images_without_alt('<img src="a.png" alt="Ends in .png, no path"/>') == []


@pytest.mark.parametrize(
    ("repository", "site"),
    [
        ("https://github.com/Some-One/book", "https://some-one.github.io/book/"),
        ("https://github.com/a/b.c/", "https://a.github.io/b.c/"),
        ("https://example.org/a/b", ""),
        ("", ""),
    ],
)
def test_address_of_the_pages_follows_the_repository(repository, site):
    assert book_fixes.pages_address(repository) == site


def test_short_names_resolve_to_the_one_place_where_they_are_defined():
    names = [
        "posenc_tutorial.alibi.ALiBi",
        "posenc_tutorial.frequencies.angles",
        "posenc_tutorial.frequencies.Row.angles",
        "posenc_tutorial.lm.train",
        "torch.nn.ALiBi",
    ]
    assert book_fixes.resolve_name("ALiBi", names) == names[0]
    assert book_fixes.resolve_name("~posenc_tutorial.ALiBi", names) == names[0]
    assert book_fixes.resolve_name("posenc_tutorial.lm.train", names) == names[3]
    assert book_fixes.resolve_name("angles", names) is None, "two objects end in .angles"
    assert book_fixes.resolve_name("LiBi", names) is None
    both = [f"posenc_tutorial.{module}.alibi_slopes" for module in ("explorers", "alibi")]
    assert book_fixes.resolve_name("alibi_slopes", both) == both[1], "not the explorer"
    assert book_fixes.resolve_name("explorers.alibi_slopes", both) == both[0]


@pytest.mark.parametrize(
    ("written", "public"),
    [
        ("np.ndarray", "numpy.ndarray"),
        ("nn.Module", "torch.nn.Module"),
        ("Axes", "matplotlib.axes.Axes"),
        ("matplotlib.axes._axes.Axes", "matplotlib.axes.Axes"),
        ("torch.Tensor", "torch.Tensor"),
        ("unknown", "unknown"),
    ],
)
def test_annotations_are_looked_up_under_their_public_name(written, public):
    assert book_fixes.public_name(written) == public


def test_a_module_can_be_made_to_look_absent():
    finder = book_fixes.NotInstalled(["torch"])
    assert finder.find_spec("torchvision") is None
    with pytest.raises(ModuleNotFoundError, match="torch.nn"):
        finder.find_spec("torch.nn")


def test_mathjax_comes_from_the_installed_package_and_knows_every_macro():
    names = [name for _, name in book_fixes.mathjax_files()]
    assert names[0] == CONFIG["sphinx"]["config"]["mathjax_path"].removeprefix("mathjax/")
    assert sum(name.startswith("output/chtml/fonts/woff-v2/") for name in names) == len(names) - 1
    assert all(path.stat().st_size > 0 for path, _ in book_fixes.mathjax_files())


# ------------------------------------------------------------------------ screenshots


screenshots = load(ROOT / "tools" / "screenshots.py")

GOOD_PAGE = {
    "scrollWidth": 390,
    "clientWidth": 390,
    "wide": [],
    "lost": [],
    "raw": [],
    "broken": [],
    "broken_links": [],
    "images": [{"src": "a.png", "alt": "A wave.", "drawn": True, "hidden": False}],
}
QUIET = {"foreign": [], "failed": [], "console": []}


def test_a_good_page_has_no_problems():
    assert screenshots.problems(GOOD_PAGE, QUIET) == []


@pytest.mark.parametrize(
    ("change", "requests", "word"),
    [
        ({"scrollWidth": 391}, {}, "sideways"),
        ({"wide": ["pre."]}, {}, "wider"),
        ({"raw": ["\\(x\\)"]}, {}, "typeset"),
        ({"broken": ["x"]}, {}, "error"),
        ({"broken_links": ["eq-1"]}, {}, "anchor"),
        ({"images": [{**GOOD_PAGE["images"][0], "alt": None}]}, {}, "words"),
        ({"images": [{**GOOD_PAGE["images"][0], "alt": "_images/1.png"}]}, {}, "words"),
        ({"images": [{**GOOD_PAGE["images"][0], "drawn": False}]}, {}, "drawn"),
        ({}, {"foreign": ["https://cdn.example.org/a.js"]}, "foreign"),
        ({}, {"failed": ["404 /a.js"]}, "failed"),
        ({}, {"console": ["x is not defined"]}, "console"),
    ],
)
def test_each_kind_of_problem_is_reported(change, requests, word):
    found = screenshots.problems({**GOOD_PAGE, **change}, {**QUIET, **requests})
    assert len(found) == 1 and word in found[0]


# ------------------------------------------------------------------------ the self-test's answers


def test_answers_of_the_self_test():
    # 1, 2: a product turns, a conjugate leaves the difference
    assert cmath.isclose((3 + 4j) * cmath.exp(1j * math.pi / 2), -4 + 3j)
    omega = 0.7
    a, b = cmath.exp(5j * omega), cmath.exp(8j * omega)
    assert cmath.isclose(a.conjugate() * b, cmath.exp(3j * omega))

    # 3, 4: the rotation matrix, and both vectors turned
    def rotation(angle: float) -> torch.Tensor:
        c, s = math.cos(angle), math.sin(angle)
        return torch.tensor([[c, -s], [s, c]], dtype=torch.float64)

    turned = rotation(math.pi / 6) @ torch.tensor([2.0, 0.0], dtype=torch.float64)
    torch.testing.assert_close(turned, torch.tensor([math.sqrt(3), 1.0], dtype=torch.float64))
    e = torch.tensor([1.0, 0.0], dtype=torch.float64)
    score = (rotation(2) @ e) @ (rotation(5) @ e)
    assert math.isclose(score, math.cos(3)) and round(float(score), 3) == -0.990

    # 5: wavelength, and half-way on a logarithmic scale
    assert round(2 * math.pi / 0.01, 1) == 628.3
    assert math.isclose(math.sqrt(0.01 * 1), 0.1)

    # 6: shapes
    scores = torch.zeros(2, 8, 16, 64) @ torch.zeros(2, 8, 20, 64).transpose(-2, -1)
    assert scores.shape == (2, 8, 16, 20)
    assert (scores + torch.zeros(8, 16, 20)).shape == scores.shape
    with pytest.raises(RuntimeError):
        scores + torch.zeros(2, 16, 20)
    assert (scores + torch.zeros(2, 16, 20).unsqueeze(1)).shape == scores.shape

    # 7: softmax
    def softmax(*values: float) -> list[float]:
        return torch.tensor(values, dtype=torch.float64).softmax(0).tolist()

    assert softmax(0, math.log(3)) == pytest.approx([0.25, 0.75])
    assert softmax(5, 5 + math.log(3)) == pytest.approx([0.25, 0.75])
    assert softmax(0, 0) == pytest.approx([0.5, 0.5])
    assert softmax(0, -math.inf) == [1, 0]

    # 8: the permutation matrix
    p = torch.tensor([[0, 0, 1], [1, 0, 0], [0, 1, 0]])
    assert (p @ torch.tensor([1, 2, 3])).tolist() == [3, 1, 2]
    assert torch.equal(p.T @ p, torch.eye(3, dtype=torch.int64))

    # 9: equivariant, invariant, neither
    x = torch.tensor([1, 2, 3])
    for order in permutations(range(3)):
        y = x[list(order)]
        assert torch.equal(y**2, (x**2)[list(order)])
        assert y.sum() == x.sum()
    assert x.cumsum(0).tolist() == [1, 3, 6]
    assert (p @ x).cumsum(0).tolist() == [3, 4, 6]
