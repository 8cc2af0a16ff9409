"""Exercises that name the mistake: ``check``, ``hint``, ``progress``.

One file a chapter holds the exercises, each with a reference that can be told to make every mistake
the check knows. What looks at an answer is in three parts: ``runner`` calls the learner's code,
``diagnosis`` compares what came back (no learner's code runs there, so a grader can do it in
another process), and ``notebook`` prints.

    check("causal_weights", causal_weights)   # one line: correct, or which mistake it is
    hint("causal_weights")                    # the next hint
    progress("progress.json")                 # a table, kept in a file

Importing ``posenc_tutorial`` does not import this package.
"""

from __future__ import annotations

from .diagnosis import Result, judge
from .notebook import check, evaluate, hint, progress
from .registry import exercise, exercises

__all__ = ["Result", "check", "evaluate", "exercise", "exercises", "hint", "judge", "progress"]
