"""Defaults that a learner may have changed, set aside and put back."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def usual_defaults() -> Iterator[None]:
    """Work with PyTorch's usual defaults, and leave everything as it was found.

    A notebook may have set another default device or dtype, and an answer may draw random numbers,
    seed a generator or switch gradients off. None of that may change a verdict, and nothing that
    happens inside may reach the notebook.
    """
    # Not torch.get_default_device(): PyTorch 2.5 fails there once the default has been reset.
    device, dtype = torch.empty(0).device, torch.get_default_dtype()
    gradients = torch.is_grad_enabled()
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    try:
        if device.type != "cpu":
            torch.set_default_device("cpu")
        torch.set_default_dtype(torch.float32)
        torch.set_grad_enabled(True)
        yield
    finally:
        if device.type != "cpu" or torch.empty(0).device != device:
            torch.set_default_device(None if device.type == "cpu" else device)
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(gradients)
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        np.random.set_state(states[2])
        if cuda is not None:
            torch.cuda.set_rng_state_all(cuda)
