"""Every way in which a notebook can go wrong fails, each on a small notebook made here."""

from __future__ import annotations

import base64
import io
import json
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import nbformat
import numpy as np
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image

from posenc_tutorial import jupyter_kernels
from tools import check_notebooks, check_prose, pictures, refresh, run_notebooks
from tools.notebooks import cell_ids, normalise, read, strip_png, text_of

KERNEL = "python3"
ALT = "One straight line rises from the lower left corner to the upper right corner."
FIGURE = {"figure": {"caption": "A line.", "name": "fig-line"}, "image": {"alt": ALT}}
PLOT = """\
import matplotlib.pyplot as plt
figure, axes = plt.subplots(figsize=(3, 2))
axes.plot([0, 1], [0, SLOPE], linewidth=3)
print(f"slope {SLOPE:.1f}")
plt.show()"""


def small_notebook() -> NotebookNode:
    """Prose, a number, a picture, an ignored cell and its assert; not executed."""
    device = 'def device():\n    return "cpu"\n\n\nSLOPE = 2.0\nprint(device())'
    numbers = [new_code_cell(f"print({number} / 8)") for number in range(9)]
    machine = new_code_cell(
        "import time\nnow = time.time()\nprint(now)", metadata={"tags": ["nbval-ignore-output"]}
    )
    return new_notebook(
        cells=[
            new_markdown_cell("# A title\n\nA sentence.\nAnother one."),
            new_code_cell(device),
            new_code_cell(PLOT, metadata={"mystnb": FIGURE}),
            *numbers,
            machine,
            new_code_cell("assert now > 0"),
        ],
        metadata={"myst": {"html_meta": {"description": "A small page."}}},
    )


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The text of the small notebook after `make refresh`."""
    path = tmp_path_factory.mktemp("refreshed") / "small.ipynb"
    nbformat.write(small_notebook(), path)
    return text_of(normalise(refresh.execute(path, kernel=KERNEL)))


@pytest.fixture
def changed(executed: str, tmp_path: Path) -> Callable[..., Path]:
    """Write the executed notebook after one change to it."""

    def write(change: Callable[[NotebookNode], object] | None = None, *, ids: bool = True) -> Path:
        notebook = nbformat.reads(executed, as_version=4)
        if change is not None:
            change(notebook)
        if ids:
            for cell, name in zip(notebook.cells, cell_ids(notebook.cells), strict=True):
                cell.id = name
        path = tmp_path / "small.ipynb"
        path.write_text(text_of(notebook), encoding="utf-8")
        return path

    return write


def png(array: np.ndarray, **options: object) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, "PNG", **options)
    return buffer.getvalue()


# --- running again -------------------------------------------------------------------------------


def test_a_refreshed_notebook_passes(changed):
    path = changed()
    assert check_notebooks.check_all([path]) == []
    outcome = run_notebooks.run_notebook(path, KERNEL)
    assert outcome.passed, outcome.log
    assert outcome.report["cells"] == 13
    compared = outcome.report["pictures"] + outcome.report["pictures_skipped"]
    assert compared == 1
    assert bool(outcome.report["pictures_skipped"]) == bool(outcome.report["skip_reason"])


def test_a_changed_digit_and_a_stale_picture_fail(changed):
    def change(notebook: NotebookNode) -> None:
        assert notebook.cells[4].outputs[0].text == "0.125\n"
        notebook.cells[4].outputs[0].text = "0.126\n"
        data = notebook.cells[2].outputs[1].data
        drawn = np.array(Image.open(io.BytesIO(base64.b64decode(data["image/png"]))))
        drawn[20:26, 20:26] = 128
        data["image/png"] = base64.b64encode(png(drawn)).decode()

    outcome = run_notebooks.run_notebook(changed(change), KERNEL)
    assert not outcome.passed
    assert "0.126" in outcome.log
    if pictures.reason_to_skip() is None:
        assert outcome.report["failed"] == 2
        assert "Picture is stale" in outcome.log
        assert "36 of" in outcome.log


def test_a_cell_that_hangs_fails(tmp_path):
    notebook = normalise(new_notebook(cells=[new_code_cell("import time\ntime.sleep(60)")]))
    path = tmp_path / "hangs.ipynb"
    path.write_text(text_of(notebook), encoding="utf-8")
    outcome = run_notebooks.run_notebook(path, KERNEL, timeout=1)
    assert not outcome.passed
    assert "Timeout of 1 seconds exceeded" in outcome.log


def test_an_unknown_kernel_fails(tmp_path):
    path = tmp_path / "one.ipynb"
    path.write_text(text_of(normalise(new_notebook(cells=[new_code_cell("1")]))), encoding="utf-8")
    assert not run_notebooks.run_notebook(path, "no-such-kernel").passed


def test_the_gpu_run_is_named_as_skipped_without_cuda(changed, monkeypatch, capsys):
    used = []
    monkeypatch.setattr(run_notebooks, "cuda_is_available", lambda: False)
    monkeypatch.setattr(run_notebooks, "warm_up", lambda: None)
    monkeypatch.setattr(
        run_notebooks,
        "run_notebook",
        lambda path, kernel: (
            used.append(kernel) or run_notebooks.Outcome(path.stem, True, 1.0, {}, "")
        ),
    )
    assert run_notebooks.main([str(changed())]) == 0
    assert used == ["posenc-cpu"]
    assert "GPU kernel posenc-gpu: skipped, no CUDA device: small" in capsys.readouterr().out


def test_a_difference_on_the_gpu_fails(changed, monkeypatch):
    monkeypatch.setattr(run_notebooks, "cuda_is_available", lambda: True)
    monkeypatch.setattr(run_notebooks, "warm_up", lambda: None)
    monkeypatch.setattr(
        run_notebooks,
        "run_notebook",
        lambda path, kernel: run_notebooks.Outcome(path.stem, kernel == "posenc-cpu", 1.0, {}, ""),
    )
    assert run_notebooks.main([str(changed())]) == 1


# --- refreshing ----------------------------------------------------------------------------------


def test_refresh_writes_the_normal_form(executed):
    notebook = json.loads(executed)
    assert notebook["metadata"] == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
        "myst": {"html_meta": {"description": "A small page."}},
    }
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, 14))
    assert not any("execution" in cell["metadata"] for cell in code)
    figure = code[1]["outputs"][1]["data"]
    assert set(figure) == {"image/png", "text/plain"}
    data = base64.b64decode(figure["image/png"])
    assert b"Software" not in data
    assert Image.open(io.BytesIO(data)).size[0] > 100


def test_normalising_twice_changes_nothing(executed):
    notebook = nbformat.reads(executed, as_version=4)
    assert text_of(normalise(notebook)) == executed


def test_refresh_stops_at_an_error_and_writes_nothing(tmp_path, capsys):
    path = tmp_path / "fails.ipynb"
    expected = new_code_cell("1 / 0", metadata={"tags": ["raises-exception"]})
    nbformat.write(new_notebook(cells=[expected]), path)
    before = path.read_text(encoding="utf-8")
    assert refresh.main([str(path)], kernel=KERNEL) == 1
    assert path.read_text(encoding="utf-8") == before
    assert "ZeroDivisionError" in capsys.readouterr().out


def test_streams_in_a_row_become_one():
    streams = [
        new_output("stream", name=name, text=text)
        for name, text in [("stdout", "a"), ("stdout", "b"), ("stderr", "c")]
    ]
    notebook = normalise(new_notebook(cells=[new_code_cell("f()", outputs=streams)]))
    assert [output.text for output in notebook.cells[0].outputs] == ["ab", "c"]


def test_cell_ids_follow_the_content():
    cells = [new_code_cell("a"), new_code_cell("b"), new_code_cell("a"), new_markdown_cell("a")]
    first, second, repeated, prose = cell_ids(cells)
    assert repeated == f"{first}-2"
    assert len({first, second, prose}) == 3
    assert cell_ids(cells[1:])[0] == second
    assert all(len(name) >= 8 for name in (first, second, prose))


def test_png_metadata_is_removed_and_pixels_stay():
    pixels = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    plain = png(pixels, dpi=(110, 110))
    text = b"Software\0somebody 1.0"
    chunk = struct.pack(">I", len(text)) + b"tEXt" + text
    chunk += struct.pack(">I", zlib.crc32(b"tEXt" + text))
    marked = plain[:33] + chunk + plain[33:]
    assert strip_png(marked) == strip_png(plain) == strip_png(strip_png(plain))
    assert np.array_equal(np.array(Image.open(io.BytesIO(strip_png(marked)))), pixels)
    with pytest.raises(ValueError, match="not a PNG"):
        strip_png(b"GIF89a")


# --- pictures ------------------------------------------------------------------------------------


def test_rounding_in_a_picture_passes_and_a_small_change_does_not():
    stored = np.full((40, 60, 3), 200, dtype=np.uint8)
    rounded = stored + np.random.default_rng(0).integers(-3, 4, stored.shape).astype(np.uint8)
    assert pictures.difference(png(stored), png(rounded)) is None
    other_digit = stored.copy()
    other_digit[10:15, 10:14] = 0
    assert "20 of 2400 pixels" in pictures.difference(png(stored), png(other_digit))
    assert "sizes 60x40 and 60x39" in pictures.difference(png(stored), png(stored[:39]))


def test_a_picture_more_or_less_is_a_difference():
    one = new_output("display_data", data={"image/png": base64.b64encode(b"x").decode()})
    assert pictures.compare([one], []) == "1 pictures are stored, 0 are drawn"
    assert pictures.compare([], []) is None


def test_pictures_are_skipped_under_another_matplotlib(monkeypatch):
    monkeypatch.setattr(pictures, "version", lambda name: "3.8.0")
    assert "matplotlib is 3.8.0" in pictures.reason_to_skip()
    monkeypatch.setattr(pictures, "version", lambda name: pictures.pinned_matplotlib())
    assert pictures.reason_to_skip() is None


# --- what is stored ------------------------------------------------------------------------------


def kernelspec(notebook):
    notebook.metadata.kernelspec.name = "my-own-kernel"


def error_output(notebook):
    notebook.cells[4].outputs = [new_output("error", ename="ValueError", evalue="", traceback=[])]


def stderr_output(notebook):
    notebook.cells[4].outputs.append(new_output("stream", name="stderr", text="a warning\n"))


def unexecuted(notebook):
    notebook.cells[4].execution_count = None


def disorder(notebook):
    notebook.cells[4].execution_count = 17


def no_alt(notebook):
    del notebook.cells[2].metadata.mystnb["image"]


def file_name_alt(notebook):
    notebook.cells[2].metadata.mystnb.image.alt = "the line plot in line_plot.png"


def path_alt(notebook):
    notebook.cells[2].metadata.mystnb.image.alt = "_images/3f2a/line"


def short_alt(notebook):
    notebook.cells[2].metadata.mystnb.image.alt = "A line"


def alt_is_caption(notebook):
    notebook.cells[2].metadata.mystnb.figure.caption = ALT


def no_caption(notebook):
    del notebook.cells[2].metadata.mystnb.figure["caption"]


def no_name(notebook):
    del notebook.cells[2].metadata.mystnb.figure["name"]


def same_name(notebook):
    notebook.cells[3].metadata["mystnb"] = {"figure": {"name": "fig-line"}}


def no_number(notebook):
    notebook.cells[2].outputs[0].text = "a slope\n"


def over_quota(notebook):
    notebook.cells[10].metadata["tags"] = ["nbval-ignore-output"]


def over_quota_by_comment(notebook):
    notebook.cells[10].source = "# NBVAL_IGNORE_OUTPUT\n" + notebook.cells[10].source


def no_assert(notebook):
    notebook.cells[13].source = "now > 0"


def skipped_cell(notebook):
    notebook.cells[4].metadata["tags"] = ["nbval-skip"]


def error_allowed(notebook):
    notebook.cells[4].source = "# NBVAL_RAISES_EXCEPTION\n" + notebook.cells[4].source


def machine_path(notebook):
    notebook.cells[4].outputs[0].text = "saved to /home/somebody/x.pt\n"


def installed_path(notebook):
    notebook.cells[4].outputs[0].text = "in site-packages\n"


def registry(notebook):
    notebook.cells[4].outputs[0].text = "Looking in indexes: https://mirror.example/simple/\n"


def no_device(notebook):
    notebook.cells[1].source = "SLOPE = 2.0"


def semicolon(notebook):
    notebook.cells[4].source += ";"


def timing(notebook):
    notebook.cells[4].metadata["execution"] = {"iopub.execute_input": "2026-01-01T00:00:00Z"}


def prose(notebook):
    notebook.cells[0].source = "# A title\n\nA sentence. Another one."


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (kernelspec, "the kernelspec is 'my-own-kernel'"),
        (error_output, "cell 4: the stored output is an error, ValueError"),
        (stderr_output, "cell 4: the stored output has a stderr stream"),
        (unexecuted, "cells [4] were not executed"),
        (disorder, "execution counts are [1, 2, 3, 17, 5"),
        (no_alt, "cell 2: the figure has no alt text"),
        (file_name_alt, "cell 2: the alt text looks like a file name"),
        (path_alt, "cell 2: the alt text looks like a file name"),
        (short_alt, "cell 2: the alt text says too little"),
        (alt_is_caption, "cell 2: the alt text repeats the caption"),
        (no_caption, "cell 2: the figure has no mystnb.figure.caption"),
        (no_name, "cell 2: the figure has no mystnb.figure.name"),
        (same_name, "two figures have the name 'fig-line'"),
        (no_number, "cell 2: the figure cell prints no number"),
        (over_quota, "cells [10, 12] leave their output uncompared: 2 of 12"),
        (over_quota_by_comment, "cells [10, 12] leave their output uncompared: 2 of 12"),
        (no_assert, "cell 12: its output is not compared and the next code cell asserts nothing"),
        (skipped_cell, "cell 4: the tag nbval-skip is not allowed"),
        (error_allowed, "cell 4: NBVAL_SKIP and NBVAL_RAISES_EXCEPTION are not allowed"),
        (machine_path, "cell 4: the output names a place of one machine"),
        (installed_path, "cell 4: the output names a place of one machine"),
        (registry, "cell 4: the output names a package registry"),
        (no_device, "cell 1: the first code cell does not call device()"),
        (semicolon, "cell 4: ends in ';'"),
        (timing, "the file is not in the form that make refresh writes"),
        (prose, "cell 0: line 3: several sentences in one line"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_each_fault_is_found(changed, change, message):
    findings = check_notebooks.check_notebook(changed(change))
    assert any(message in finding for finding in findings), findings
    assert check_notebooks.main([str(changed(change))]) == 1


def test_foreign_cell_ids_are_found(changed):
    def change(notebook: NotebookNode) -> None:
        notebook.cells[3].id = "0123abcd"

    findings = check_notebooks.check_notebook(changed(change, ids=False))
    assert any("cells [3] have ids that do not follow" in finding for finding in findings)


def test_two_notebooks_may_not_share_a_figure_name(changed, tmp_path):
    first = changed()
    second = tmp_path / "other.ipynb"
    second.write_text(first.read_text(encoding="utf-8"), encoding="utf-8")
    assert any(
        "two figures have the name" in text for text in check_notebooks.check_all([first, second])
    )


def test_the_ignored_cells_are_listed(changed):
    assert check_notebooks.quota_line(changed()).endswith("1 of 12 outputs not compared (cells 12)")


def test_the_stored_notebook_is_only_read(changed):
    path = changed()
    before = path.read_bytes()
    check_notebooks.check_all([path])
    assert path.read_bytes() == before
    assert read(path).nbformat == 4


# --- prose ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        "One sentence.\nAnother one.",
        "Su et al. (2021) rotate; cf. Eq. 3, i.e. the angle, see Fig. 2 of J. Su and Y. Lu.",
        "It is 3.5 times larger, `a.b. C` is code and $x. Y$ is maths.",
        "**Pitfall.** The exponent is doubled.",
        "- **The input.** A vector is added.",
        "1. The first door.",
        "| a. B | c. D |\n|---|---|\n| One. Two. | Three! Four |",
        "## What is it? A title may ask",
        'They write "It extrapolates. No training is needed." and we measure it.',
        "See [the paper. Really](https://example.org/A.B?c=D. E), then go on.",
        "```python\nx = 1. # One. Two.\n# {card}\n```",
        "$$\na. B\n$$ (eq-name)",
        "$$a = b. C$$ (eq-name)",
        "(claim-6)=\n## A heading",
        ":::{note}\n\nA sentence.\n\n:::",
        ":::{prf:theorem} Equivariance. A name\n:label: thm-equivariance\n\nA sentence.\n\n:::",
        ":::{math}\n:label: eq-x\n\nx = y. Z\n\n:::",
        "::::{admonition} A title\n:class: tip\n\nA sentence.\n\n:::{math}\n\nx\n\n:::\n\n::::",
        "By {cite:t}`su2021`, {eq}`eq-x`, {prf:ref}`thm-x`, {ref}`claim-6` and {doc}`index`.",
        "Let $a<b$ and $b>c$, or 1 < 2, or <https://example.org>.",
        "`{card}` and `<div>` are code.",
        "It ends there ... Or does it",
    ],
)
def test_allowed_prose_passes(source):
    assert check_prose.check(source) == []


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("It is one. It is two.", "several sentences"),
        ("Is it one? It is *two*.", "several sentences"),
        ("- An item. Another sentence.", "several sentences"),
        ("> A quote. Another sentence.", "several sentences"),
        ("The value is $x$. The other is $y$.", "several sentences"),
        ("It is {cite:p}`su2021`. The next one.", "several sentences"),
        ("```{note}\nA sentence.\n```", "a backtick directive"),
        ("````{prf:proof}\nA sentence.\n````", "a backtick directive"),
        (":::{card} Title\n\nText.\n\n:::", "the directive 'card'"),
        (":::{dropdown} Title\n\nText.\n\n:::", "the directive 'dropdown'"),
        (":::{note}\nText.\n\n:::", "no blank line after the head"),
        (":::{note}\n\nText.\n:::", "no blank line before the end"),
        (":::{note}\n\nText.", "is not closed"),
        (":::note\n\nText.\n\n:::", "a fence without {name}"),
        ("See {index}`rotation`.", "the role 'index'"),
        ("See {abbr}`RoPE (rotary)`.", "the role 'abbr'"),
        ('<a id="x"></a>', "raw HTML"),
        ("One line<br>two lines", "raw HTML"),
        ("A claim[^1].", "a footnote"),
    ],
)
def test_other_prose_is_found(source, message):
    findings = check_prose.check(source)
    assert any(message in finding for finding in findings), findings


# --- kernels -------------------------------------------------------------------------------------


def test_both_kernels_are_installed(tmp_path, capsys):
    assert jupyter_kernels.main(["--prefix", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    for name, value in [("posenc-cpu", "cpu"), ("posenc-gpu", "cuda")]:
        folder = tmp_path / "share" / "jupyter" / "kernels" / name
        spec = json.loads((folder / "kernel.json").read_text(encoding="utf-8"))
        assert spec["env"] == {"POSENC_DEVICE": value}
        assert spec["argv"][1:3] == ["-m", "ipykernel_launcher"]
        assert Path(spec["argv"][0]).is_file()
        assert str(folder) in printed
    jupyter_kernels.install(tmp_path)  # again: replaced, no error


def test_a_prefix_that_is_no_folder_is_told(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("no folder")
    for prefix, told in ((str(tmp_path / "file"), "posenc-cpu"), ("", "an empty text")):
        assert jupyter_kernels.main(["--prefix", prefix]) == 1
        assert told in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["file"]


def test_kernels_without_ipykernel_are_an_error_that_says_what_to_do(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(jupyter_kernels.importlib.util, "find_spec", lambda name: None)
    assert jupyter_kernels.main(["--prefix", str(tmp_path)]) == 1
    assert "-m pip install ipykernel" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_an_unknown_kernel_name_is_named():
    with pytest.raises(ValueError, match="'posenc-tpu'"):
        jupyter_kernels.kernel_spec("posenc-tpu")
