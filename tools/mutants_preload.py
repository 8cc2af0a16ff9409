"""What the server of ``tools/mutants.py`` imports once, before it forks a process per mutant.

Importing runs nothing: the package's modules do nothing on import, and no tensor is made here.
"""

from __future__ import annotations

import importlib
import pkgutil

import hypothesis  # noqa: F401  (the tests' largest import after PyTorch)

import posenc_tutorial

for module in pkgutil.walk_packages(posenc_tutorial.__path__, "posenc_tutorial."):
    importlib.import_module(module.name)
