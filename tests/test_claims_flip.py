"""Every verdict in the book could have been another one: the tests of the claims are watched.

``tools/claims_plugin.py`` writes down which verdicts those tests look at. For every cell of a
chapter that decides a claim, they must have seen the function that the cell calls return the
verdict that is stored, and at least one of another kind.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from posenc_tutorial import claims
from posenc_tutorial.claims.catalogue import CLAIMS
from tools.notebooks import BOOK, ROOT, printed

# Claims that no cell has decided yet. A new verdict is taken out of here; none is ever put in.
NOT_DECIDED: set[int] = set()

PACKAGE = "posenc_tutorial.claims"


def called_function(cells: list[dict], cell: dict) -> str:
    """Full name of the function of ``posenc_tutorial.claims`` that a cell ends with."""
    modules = {}  # name in the notebook -> full name
    for source in ("".join(c["source"]) for c in cells if c["cell_type"] == "code"):
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
                for name in node.names:
                    modules[name.asname or name.name] = f"{node.module}.{name.name}"
    last = ast.parse("".join(cell["source"])).body[-1]
    assert isinstance(last, ast.Expr) and isinstance(last.value, ast.Call), ast.unparse(last)
    first, *rest = ast.unparse(last.value.func).split(".")
    return ".".join([modules[first], *rest])


def deciding_cells() -> list[tuple[str, str, claims.Verdict]]:
    """Page, function and stored verdict of every cell with the tag ``claim``."""
    found = []
    for path in sorted(BOOK.glob("[0-9][0-9]-*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        for cell in cells:
            if "claim" in cell["metadata"].get("tags", []):
                for verdict in claims.read_verdicts(printed(cell)):
                    found.append((path.stem, called_function(cells, cell), verdict))
    return found


CELLS = deciding_cells()


def watch(report: Path, *tests: Path) -> dict[tuple[str, int], set[str]]:
    """Run tests and return the kinds of verdict that they looked at, by function and claim."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tools.claims_plugin"]
    command += ["--verdicts", str(report), *map(str, tests)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    seen = defaultdict(set)
    for function, claim, kind in json.loads(report.read_text(encoding="utf-8")):
        seen[function, claim].add(kind)
    return dict(seen)


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    own = Path(__file__)
    tests = [path for path in sorted(own.parent.glob("test_claims_*.py")) if path != own]
    return watch(tmp_path_factory.mktemp("claims") / "verdicts.json", *tests)


def test_every_claim_has_a_verdict_except_these():
    assert [claim.number for claim in CLAIMS] == list(range(1, 37))
    decided = {verdict.claim for _, _, verdict in CELLS}
    assert {claim.number for claim in CLAIMS} - decided == NOT_DECIDED
    assert decided <= {claim.number for claim in CLAIMS}


def test_every_verdict_has_a_number():
    for page, _, verdict in CELLS:
        numbers = verdict.evidence.replace("T5", "")  # a name
        assert re.search(r"\d", numbers), (page, verdict)


@pytest.mark.parametrize(
    ("page", "function", "verdict"),
    CELLS,
    ids=[f"{verdict.claim}-in-chapter-{page[:2]}" for page, _, verdict in CELLS],
)
def test_the_tests_see_the_verdict_of_the_book_and_another(seen, page, function, verdict):
    kinds = seen.get((function, verdict.claim), set())
    assert verdict.kind in kinds, f"no test of {function} returns {verdict.kind!r}"
    assert kinds - {verdict.kind}, f"no test of {function} returns anything else"


# ------------------------------------------------------------------- the watcher


def test_a_verdict_that_nobody_reads_does_not_count(tmp_path):
    test = tmp_path / "test_small.py"
    test.write_text(
        "from posenc_tutorial.claims.ch09_train_short import claim_28\n"
        "def test_one():\n"
        "    assert claim_28(1.62, 1.52, spread=0.02).verdict == 'holds'\n"
        "    claim_28(1.52, 1.74, spread=0.02)\n",
        encoding="utf-8",
    )
    assert watch(tmp_path / "verdicts.json", test) == {
        (f"{PACKAGE}.ch09_train_short.claim_28", 28): {"holds"}
    }


def test_the_function_of_a_cell_is_found_through_its_import():
    def code(source: str) -> dict:
        return {"cell_type": "code", "source": source}

    cells = [
        code("from posenc_tutorial.claims import ch01_why_positions as claims"),
        code("from posenc_tutorial.claims.ch08_alibi import claim_18"),
    ]
    assert called_function(cells, code("x = 1\nclaims.claim_1(x)")) == (
        f"{PACKAGE}.ch01_why_positions.claim_1"
    )
    assert called_function(cells, code("claim_18(slopes)")) == f"{PACKAGE}.ch08_alibi.claim_18"


# ------------------------------------------------------------------- reading verdicts


@pytest.mark.parametrize(
    ("verdict", "kind"),
    [
        ("holds", "holds"),
        ("holds exactly", "holds"),
        ("holds exactly, and breaks with angles in bfloat16", "holds"),
        ("holds; turned values must be turned back", "holds"),
        ("holds, but sets nothing apart", "holds"),
        ("holds if there are 8 heads", "holds with a condition"),
        ("holds for door 1 only", "holds with a condition"),
        ("holds for the loss; far tokens hardly count", "holds with a condition"),
        ("does not hold", "does not hold"),
        ("does not hold for RoPE, T5", "does not hold"),
    ],
)
def test_kinds_of_verdict(verdict, kind):
    assert claims.Verdict(1, verdict, "1 of 2").kind == kind
    assert kind in claims.KINDS


def test_a_printed_verdict_is_read_as_what_it_was():
    verdict = claims.Verdict(26, "does not hold: tables have a limit", "computed by 2. And 3")
    text = f"T5's last bucket begins at distance 113\n{verdict!r}"
    assert claims.read_verdicts(text) == [verdict]
    assert claims.read_verdicts("Claim 3: perhaps") == []
    assert claims.read_verdicts(f"{verdict!r}\n{verdict!r}") == [verdict, verdict]
