"""Explorers in a browser: their formulas against the package, and what a reader does with them."""

from __future__ import annotations

import importlib
import json
import math
import re
from typing import Any

import pytest
import torch

from posenc_tutorial import alibi_slopes, explorers, inverse_frequencies, rotate, t5_bucket
from posenc_tutorial.context_extension import default_rope, ntk_aware, position_interpolation, yarn
from posenc_tutorial.explorers._explorer import Choice, script
from posenc_tutorial.sinusoidal import sinusoidal_table
from tools.browser import SITE, WIDTHS, built_pages, opened

# The module, whose name the function of the same name hides.
rotation_dial = importlib.import_module("posenc_tutorial.explorers.rotation_dial")

NAMES = ("alibi_slopes", "rotation_dial", "t5_buckets", "wave_board", "wavelengths")
every = pytest.mark.parametrize("name", NAMES)


@pytest.fixture(scope="module")
def tab(chromium):
    context = chromium.new_context()
    yield context.new_page()
    context.close()


def evaluate(tab: Any, name: str, function: str, arguments: list[list]) -> list:
    """What one of an explorer's formulas returns for each list of arguments."""
    call = f"(() => {{ {script(name)}\nreturn a => a.map(b => {function}(...b)); }})()"
    return tab.evaluate(f"({call})({json.dumps(arguments)})")


def close(found: list, expected: torch.Tensor, tolerance: float = 1e-6) -> None:
    found = torch.tensor(found, dtype=torch.float64)
    assert found.shape == expected.shape
    error = (found - expected.double()).abs() / expected.double().abs().clamp(min=1)
    assert float(error.max()) < tolerance


def test_rotation_dial_turns_as_the_package_does(tab):
    grid = [
        (q, k, pair, base)
        for q in (0, 1, 17, 240)
        for k in (0, 3, 40, 239)
        for pair in (0, 1, 4, 7)
        for base in (10, 1e4, 1e6)
    ]
    dim, query, key = rotation_dial.DIM, rotation_dial.QUERY, rotation_dial.KEY
    js = evaluate(
        tab, "rotation_dial", "contribution", [[query, key, q, k, i, dim, b] for q, k, i, b in grid]
    )
    expected = []
    for q, k, pair, base in grid:
        speed = inverse_frequencies(dim, base)[pair]
        turned = []
        for content, position in ((query, q), (key, k)):
            arrow = torch.tensor([[math.cos(content), math.sin(content)]], dtype=torch.float64)
            angle = (position * speed).reshape(1, 1)
            turned.append(rotate(arrow, angle.cos(), angle.sin())[0])
        expected.append(turned[0] @ turned[1])
    close(js, torch.stack(expected))
    speeds = evaluate(tab, "rotation_dial", "inverseFrequency", [[i, dim, 1e4] for i in range(8)])
    close(speeds, inverse_frequencies(dim, 1e4), 1e-12)


def test_moving_both_leaves_the_angle(tab):
    query, key, dim = rotation_dial.QUERY, rotation_dial.KEY, rotation_dial.DIM
    moved = [[query, key, 2 + s, 12 + s, 1, dim, 1e4] for s in range(0, 201, 20)]
    values = evaluate(tab, "rotation_dial", "contribution", moved)
    assert max(values) - min(values) < 1e-12


@pytest.mark.parametrize("method", ["none", "PI", "NTK-aware", "YaRN"])
def test_wavelengths_are_those_of_the_package(tab, method):
    grid = [
        (dim, base, factor, length)
        for dim in (32, 80, 128, 256)
        for base in (1000, 10_000, 500_000, 10_000_000)
        for factor in (1, 1.5, 8, 64)
        for length in (512, 4096, 131072)
    ]
    js = evaluate(
        tab, "wavelengths", "extendedFrequencies", [[method, *setting] for setting in grid]
    )
    for found, (dim, base, factor, length) in zip(js, grid, strict=True):
        expected = {
            "none": lambda d, b, s, n: default_rope(d, b),
            "PI": lambda d, b, s, n: position_interpolation(d, b, s),
            "NTK-aware": lambda d, b, s, n: ntk_aware(d, b, s),
            "YaRN": yarn,
        }[method](dim, float(base), float(factor), length).inv_freq
        close([2 * math.pi / w for w in found], 2 * math.pi / expected)


def test_wave_board_has_the_rows_of_the_table(tab):
    for dim in (4, 16, 32):
        for base in (2, 10_000):
            positions = torch.arange(0, 101, 7)
            rows = sinusoidal_table(positions, dim, base=float(base), dtype=torch.float64)
            settings = [[p, dim, base] for p in positions.tolist()]
            close(evaluate(tab, "wave_board", "sinusoidRow", settings), rows)
            pairs = [[p, q, dim, base] for p in positions.tolist() for q in positions.tolist()]
            close(evaluate(tab, "wave_board", "rowProduct", pairs), (rows @ rows.T).flatten())


def test_alibi_slopes_and_shares_are_those_of_the_package(tab):
    for heads in range(1, 33):
        (found,) = evaluate(tab, "alibi_slopes", "alibiSlopes", [[heads]])
        close(found, alibi_slopes(heads), 1e-12)
    for slope in alibi_slopes(12).tolist():
        for length in (64, 1024):
            scores = -slope * torch.arange(length, dtype=torch.float64)
            share = torch.softmax(scores, 0).cumsum(0)
            settings = [[slope, n, length] for n in range(1, length + 1)]
            close(evaluate(tab, "alibi_slopes", "nearestShare", settings), share)
            (half,) = evaluate(tab, "alibi_slopes", "halfReach", [[slope, length]])
            assert share[half - 1] >= 0.5 and (half == 1 or share[half - 2] < 0.5)


@pytest.mark.parametrize("both", [True, False])
def test_t5_buckets_are_those_of_the_package(tab, both):
    relative = torch.arange(-300, 301)
    for buckets in range(4, 65, 4):
        for far in range(40, 257, 8):
            settings = [[r, both, buckets, far] for r in relative.tolist()]
            expected = t5_bucket(
                relative, bidirectional=both, num_buckets=buckets, max_distance=far
            )
            assert evaluate(tab, "t5_buckets", "t5Bucket", settings) == expected.tolist()


# What a reader does.


def page_with(tab: Any, html: str, *, width: int = 700, dark: bool = False) -> None:
    colours = "background:#121212;color:#ddd" if dark else "background:#fff;color:#222"
    tab.set_viewport_size({"width": width, "height": 800})
    tab.set_content(
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>t</title>"
        f"<body style='margin:10px;{colours}'>{html}</body></html>"
    )


def state(tab: Any) -> tuple[str, str]:
    return tab.locator("svg").inner_html(), tab.locator(".say").text_content()


@every
def test_at_first_it_says_what_the_stored_text_says(name, tab):
    made = getattr(explorers, name)()
    page_with(tab, made.html())
    assert tab.locator("svg *").count() > 20
    assert tab.locator(".say").text_content() == made.sentence


@every
@pytest.mark.parametrize("width", list(WIDTHS))
@pytest.mark.parametrize("dark", [False, True])
def test_every_control_works_with_the_keyboard_alone(name, width, dark, tab):
    made = getattr(explorers, name)()
    page_with(tab, made.html(), width=width, dark=dark)
    for control in made.controls:
        tab.keyboard.press("Tab")  # in order, from the top of the page
        assert tab.evaluate("document.activeElement.name") == control.name
        before = state(tab)
        keys = (
            ("ArrowDown", "ArrowUp") if isinstance(control, Choice) else ("ArrowRight", "ArrowLeft")
        )
        tab.keyboard.press(keys[control.start == control.values[-1]])
        after = state(tab)
        assert after[0] != before[0], f"{control.name} does not change the drawing"
        if control.name != "max_distance":  # at first it does not move the bucket named
            assert after[1] != before[1], f"{control.name} does not change the sentence"
    wide = tab.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide[0] <= wide[1]
    colour = "rgb(221, 221, 221)" if dark else "rgb(34, 34, 34)"
    assert tab.evaluate("getComputedStyle(document.querySelector('svg text')).fill") == colour
    assert "NaN" not in state(tab)[0] and "undefined" not in state(tab)[0]


@every
def test_extremes_stay_inside_the_drawing(name, tab):
    made = getattr(explorers, name)()
    for width in WIDTHS:
        page_with(tab, made.html(), width=width)
        for key in ("Home", "End"):
            for control in made.controls:
                tab.locator(f"[name={control.name}]").focus()
                tab.keyboard.press(key)
            drawn, said = state(tab)
            assert "NaN" not in drawn + said and "Infinity" not in drawn + said
            outside = tab.evaluate(
                """() => { const svg = document.querySelector('svg').getBoundingClientRect();
                return [...document.querySelectorAll('svg *')].filter(e => {
                  const b = e.getBoundingClientRect();
                  return b.left < svg.left - 8 || b.right > svg.right + 8
                    || b.top < svg.top - 8 || b.bottom > svg.bottom + 8;
                }).map(e => e.outerHTML.slice(0, 120)); }"""
            )
            assert outside == []


@every
def test_a_notebook_that_takes_the_arrow_keys_leaves_them_to_the_controls(name, tab):
    made = getattr(explorers, name)()
    page_with(tab, made.html())
    tab.evaluate(
        """() => { window.seen = []; document.addEventListener("keydown", e => {
        seen.push(e.key); if (e.key.startsWith("Arrow")) e.preventDefault(); }); }"""
    )
    control = next(c for c in made.controls if not isinstance(c, Choice))
    before = state(tab)
    tab.locator(f"[name={control.name}]").focus()
    tab.keyboard.press("ArrowRight" if control.start != control.values[-1] else "ArrowLeft")
    assert state(tab)[0] != before[0]
    tab.keyboard.press("Control+k")  # the page's own shortcut still gets there
    assert tab.evaluate("seen") == ["Control", "k"]


def test_two_on_one_page_do_not_disturb_each_other(tab):
    html = explorers.wave_board().html()
    page_with(tab, html + html)
    tab.locator("[name=first]").nth(1).focus()
    tab.keyboard.press("ArrowRight")
    said = tab.locator(".say").all_text_contents()
    assert said[0] != said[1] and said[0] == explorers.wave_board().sentence


def test_without_scripts_the_sentence_is_there(chromium):
    context = chromium.new_context(java_script_enabled=False)
    tab = context.new_page()
    page_with(tab, explorers.t5_buckets().html())
    assert tab.locator(".say").text_content() == explorers.t5_buckets().sentence
    assert "The drawing needs JavaScript." in tab.locator("noscript").text_content()
    context.close()


def test_a_screen_reader_hears_the_value_and_not_the_step(tab):
    page_with(tab, explorers.wavelengths().html())
    base = tab.locator("[name=base]")
    assert base.get_attribute("aria-valuetext") == "10,000"
    base.press("ArrowRight")
    assert base.get_attribute("aria-valuetext") == "50,000"


def placed() -> list[tuple[str, str]]:
    """Page and name of every explorer in the built book."""
    return [
        (page, name)
        for page in built_pages()
        for name in re.findall(
            r'<div class="posenc-explorer" data-explorer="(\w+)"',
            (SITE / f"{page}.html").read_text(encoding="utf8"),
        )
    ]


@pytest.mark.parametrize(("page", "name"), placed())
def test_explorers_of_the_book(page, name, chromium, base):
    with opened(chromium, base, page, scheme="dark", width=390) as (tab, record):
        box = tab.locator(f'.posenc-explorer[data-explorer="{name}"]')
        assert box.count() == 1
        control = box.locator("input").first
        control.focus()
        before = box.locator(".say").text_content()
        control.press("ArrowRight")
        assert box.locator(".say").text_content() != before
        ink = box.evaluate("e => getComputedStyle(e).color")
        assert ink == tab.evaluate("getComputedStyle(document.querySelector('article p')).color")
        assert record["console"] == []


def test_no_explorer_is_forgotten():
    assert sorted(NAMES) == sorted(
        name for name in explorers.__all__ if not re.match("[A-Z]", name)
    )
