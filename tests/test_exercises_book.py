"""The exercises in the chapters are those of the registry, in the form that tools rely on."""

from __future__ import annotations

import re

import pytest

from posenc_tutorial.exercises import exercises
from posenc_tutorial.exercises.registry import CHAPTERS, Explain, Implement
from tools.notebooks import BOOK, read

NUMBERS = [int(name[2:4]) for name in CHAPTERS]
TASK = re.compile(r":::\{exercise\} (.+)\n:label: (ex-[a-z0-9-]+)\n\n(.*)\n\n:::$", re.DOTALL)


def cells(chapter):
    (path,) = BOOK.glob(f"{chapter:02d}-*.ipynb")
    return read(path).cells


def grade_id(cell):
    return cell.metadata.get("nbgrader", {}).get("grade_id")


def triples(chapter):
    """Task, answer and check of each exercise, which follow each other."""
    found = cells(chapter)
    starts = [
        i
        for i, cell in enumerate(found)
        if cell.cell_type == "markdown" and "{exercise}" in cell.source
    ]
    return [found[i : i + 3] for i in starts]


@pytest.mark.parametrize("chapter", NUMBERS)
def test_a_chapter_has_the_exercises_of_the_registry_in_their_order(chapter):
    names = [grade_id(answer) for _, answer, _ in triples(chapter)]
    assert names == [entry.name for entry in exercises(chapter)]


@pytest.mark.parametrize("chapter", NUMBERS)
def test_tasks_say_what_the_registry_says(chapter):
    for (task, _, _), entry in zip(triples(chapter), exercises(chapter), strict=True):
        title, label, body = TASK.fullmatch(task.source).groups()
        assert title == entry.title
        assert label == "ex-" + entry.name.replace("_", "-")
        points = "1 point" if entry.points == 1 else f"{entry.points} points"
        assert body.endswith(
            f"*Difficulty {entry.difficulty} of 3, importance {entry.importance} of 3, "
            f"{entry.minutes} minutes, {points}.*"
        )
        if isinstance(entry, Implement):
            assert f"\n```python\n{entry.signature}\n```\n" in body
        if isinstance(entry, Explain):
            listed = [line for line in body.splitlines() if line.startswith("- **")]
            texts = [f"- **{key}.** {entry.statements[key].text}" for key in entry.statements]
            assert listed == texts


@pytest.mark.parametrize("chapter", NUMBERS)
def test_answers_hold_one_marked_solution_behind_a_button(chapter):
    for (_, answer, _), entry in zip(triples(chapter), exercises(chapter), strict=True):
        assert answer.metadata["tags"] == ["hide-input", "exercise-answer"]
        assert answer.metadata["mystnb"]["code_prompt_show"] == "Show a solution"
        assert answer.metadata["nbgrader"] == {
            "grade": False,
            "grade_id": entry.name,
            "locked": False,
            "schema_version": 3,
            "solution": True,
            "task": False,
        }
        lines = answer.source.splitlines()
        begin = [line.strip() for line in lines].index("# BEGIN SOLUTION")
        assert lines[-1].strip() == "# END SOLUTION" and answer.source.count("SOLUTION") == 2
        if isinstance(entry, Implement):
            assert lines[:begin] == [entry.signature] and lines[begin].startswith("    #")
        else:
            # The line above the solution is the stub: a student's copy runs from top to bottom.
            assert begin == 1 and lines[0].startswith(f"{entry.name} = ...  # ")
            assert lines[begin] == "# BEGIN SOLUTION"
        assert not answer.outputs


@pytest.mark.parametrize("chapter", NUMBERS)
def test_checks_are_locked_carry_the_points_and_pass(chapter):
    for (_, _, check), entry in zip(triples(chapter), exercises(chapter), strict=True):
        assert check.source == f'check("{entry.name}", {entry.name})'
        assert check.metadata["nbgrader"] == {
            "grade": True,
            "grade_id": f"check_{entry.name}",
            "locked": True,
            "points": entry.points,
            "schema_version": 3,
            "solution": False,
            "task": False,
        }
        (output,) = check.outputs
        assert output.text.startswith(f"[ok] {entry.name}: correct")
        assert output.text.count("\n") == 1


@pytest.mark.parametrize("chapter", NUMBERS)
def test_grade_ids_are_unique_and_check_is_imported_first(chapter):
    found = cells(chapter)
    ids = [grade_id(cell) for cell in found if grade_id(cell)]
    assert len(ids) == len(set(ids)) == 2 * len(exercises(chapter))
    sources = [cell.source for cell in found if cell.cell_type == "code"]
    first = next(i for i, source in enumerate(sources) if source.startswith('check("'))
    imports = [
        i for i, s in enumerate(sources) if re.search(r"from posenc_tutorial.exercises import", s)
    ]
    assert imports and imports[0] < first


@pytest.mark.parametrize("chapter", NUMBERS)
def test_exercises_stand_between_the_summary_and_further_reading(chapter):
    text = "\n".join(cell.source for cell in cells(chapter) if cell.cell_type == "markdown")
    heads = re.findall(r"(?m)^## (Summary|Exercises|Further reading)", text)
    assert heads == ["Summary", "Exercises", "Further reading"]
