"""Training on random windows of a fixed length, interrupted and resumed as often as needed."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
from pathlib import Path

import torch
from torch import nn

from .checkpoint import load_tensors, replace_file, save_tensors
from .model import LanguageModel
from .progress import progress


def learning_rate_at(step: int, *, steps: int, peak: float, warmup: int) -> float:
    """Linear warm-up to ``peak``, then a cosine down to a tenth of it.

    Args:
        step: counted from 0.
        steps: number of updates in all.
        peak: the highest rate.
        warmup: steps of warm-up.

    Returns:
        The learning rate of this step.
    """
    done = (step - warmup) / max(1, steps - warmup)
    decay = 0.1 + 0.45 * (1 + math.cos(math.pi * max(0.0, done)))
    return peak * min(1.0, (step + 1) / max(1, warmup)) * decay


def train(
    model: LanguageModel,
    data: torch.Tensor,
    *,
    length: int,
    steps: int,
    batch_size: int = 32,
    learning_rate: float = 3e-3,
    warmup: int = 50,
    positions: torch.Tensor | None = None,
    seed: int = 0,
    encoding_rate_factor: float = 1.0,
    encoding_weight_decay: float = 0.1,
    checkpoint: Path | str | None = None,
    save_every: int = 50,
    log: Path | str | None = None,
    label: str = "",
    about: dict | None = None,
) -> list[float]:
    """Minimise the next-byte loss with AdamW; warm-up, then a cosine down to a tenth.

    With ``checkpoint``, everything that the rest of the run depends on is saved every
    ``save_every`` steps: weights, the optimiser's averages, the state of the generator that draws
    the windows, the step and the losses so far. (The learning rate is a function of the step.) If
    the file exists, training goes on from there, and the curve is the one that an uninterrupted
    run gives. A file that is complete returns at once.

    Under ``torch.distributed`` every process draws the same windows and works on its share of
    them, and the losses are those of one process with the same ``batch_size``.

    Args:
        model: trained in place, on the device it is on.
        data: ``(n,)``, uint8.
        length: bytes per window.
        steps: number of updates.
        batch_size: windows per update, over all processes.
        learning_rate: at its peak.
        warmup: steps of linear warm-up.
        positions: ``(length,)``, where the bytes of every window stand; default ``0 … length-1``.
        seed: decides which windows are drawn, on every device alike.
        encoding_rate_factor: the encoding's own parameters learn so many times as fast.
        encoding_weight_decay: of the encoding's own parameters.
        checkpoint: a safetensors file, made or resumed from.
        save_every: steps between two saves; the last step is always saved.
        log: a CSV file, one row a step.
        label: stands before the progress bar, which only a terminal shows, and only with a label.
        about: what the names and shapes of the weights do not tell of the model, such as its
            encoding and number of heads; kept in ``checkpoint`` and compared with it.

    Returns:
        The loss of every step, nats per byte, those before an interruption included.

    Raises:
        TypeError: data that is not integers.
        ValueError: ``length``, ``steps``, ``batch_size`` or ``save_every`` below 1; data that is
            not one row of bytes longer than one window; a batch that the processes cannot share
            equally; a checkpoint of another run.
        FloatingPointError: the loss is no longer finite. The last checkpoint stays as it is.
    """
    if length < 1 or steps < 1:
        raise ValueError(f"length and steps must be >= 1, got {length} and {steps}")
    if batch_size < 1 or save_every < 1:
        raise ValueError(
            f"batch_size and save_every must be >= 1, got {batch_size} and {save_every}"
        )
    if data.dim() != 1 or data.numel() <= length:
        raise ValueError(
            f"data must be one row longer than one window of {length}, got {tuple(data.shape)}"
        )
    rank, world = _rank_and_world()
    if batch_size % world:
        raise ValueError(
            f"batch_size must be a multiple of the {world} processes, got {batch_size}"
        )
    device = model.embedding.weight.device
    generator = torch.Generator().manual_seed(seed)
    optimiser = _optimiser(model, encoding_rate_factor, encoding_weight_decay)
    losses: list[float] = []

    def rate(step: int) -> float:
        return learning_rate_at(step, steps=steps, peak=learning_rate, warmup=warmup)

    run: dict = {}
    if checkpoint is not None:
        run = {
            "length": length,
            "steps": steps,
            "batch_size": batch_size,
            "learning_rate": learning_rate,
            "warmup": warmup,
            "seed": seed,
            "positions": None if positions is None else positions.tolist(),
            "encoding_rate_factor": encoding_rate_factor,
            "encoding_weight_decay": encoding_weight_decay,
            "data_sha256": hashlib.sha256(data.numpy().tobytes()).hexdigest(),
            "parameters": {n: list(p.shape) for n, p in model.named_parameters()},
            "about": about,
        }
        if Path(checkpoint).exists():
            losses = _resume(checkpoint, run, model, optimiser, generator)
    if rank == 0 and log is not None:
        _start_log(log, [(i, loss, rate(i)) for i, loss in enumerate(losses)])

    forward = model
    if world > 1:
        ids = [device.index] if device.type == "cuda" else None
        forward = nn.parallel.DistributedDataParallel(
            model, device_ids=ids, broadcast_buffers=False
        )
    window = torch.arange(length + 1)
    share = slice(rank * batch_size // world, (rank + 1) * batch_size // world)
    todo = range(len(losses), steps)
    if rank == 0 and label:
        todo = progress(todo, steps, label=label, start=len(losses))
    model.train()
    for step in todo:
        for group in optimiser.param_groups:
            group["lr"] = rate(step) * group["factor"]
        starts = torch.randint(data.numel() - length, (batch_size, 1), generator=generator)
        tokens = data[starts[share] + window].to(device)  # (batch, length + 1)
        logits = forward(tokens[:, :-1], positions=positions)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].long().flatten())
        mean = _mean_over_processes(loss, world)
        if not math.isfinite(mean):
            raise FloatingPointError(
                f"the loss is {mean} at step {step}, with a learning rate of {rate(step):.3g}; "
                "lower the rate or lengthen the warm-up"
            )
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        losses.append(mean)
        if rank == 0:
            if log is not None:
                _append(log, (step, mean, rate(step)))
            if checkpoint is not None and ((step + 1) % save_every == 0 or step + 1 == steps):
                _save(checkpoint, run, model, optimiser, generator, losses)
    model.eval()
    return losses


def _optimiser(model, factor, weight_decay) -> torch.optim.AdamW:
    own = list(model.encoding.parameters())
    ids = {id(p) for p in own}
    groups = [{"params": [p for p in model.parameters() if id(p) not in ids], "factor": 1.0}]
    if own:
        groups.append({"params": own, "factor": factor, "weight_decay": weight_decay})
    return torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.95), weight_decay=0.1)


# Several processes


def _rank_and_world() -> tuple[int, int]:
    if not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return 0, 1
    return torch.distributed.get_rank(), torch.distributed.get_world_size()


def _mean_over_processes(loss: torch.Tensor, world: int) -> float:
    mean = loss.detach()
    if world > 1:
        mean = mean / world
        torch.distributed.all_reduce(mean)
    return mean.item()


# Resuming


def _save(path, run, model, optimiser, generator, losses) -> None:
    tensors = {f"model.{name}": p for name, p in model.named_parameters()}
    for index, state in optimiser.state_dict()["state"].items():
        tensors.update({f"optimiser.{index}.{key}": value for key, value in state.items()})
    tensors["generator"] = generator.get_state()
    tensors["losses"] = torch.tensor(losses, dtype=torch.float64)
    save_tensors(path, tensors, {"run": json.dumps(run)})


def _resume(path, run, model, optimiser, generator) -> list[float]:
    tensors, metadata = load_tensors(path)
    saved = json.loads(metadata.get("run", "{}"))
    wanted = json.loads(json.dumps(run))
    saved.setdefault("about", wanted["about"])  # a file from before it was kept
    differ = [key for key in wanted if saved.get(key) != wanted[key]]
    if differ:
        told = "; ".join(f"{k} was {saved.get(k)!r}, now {wanted[k]!r}" for k in differ)
        raise ValueError(f"{path} belongs to another run: {told}")
    device = model.embedding.weight.device
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(tensors[f"model.{name}"])
    state: dict[int, dict] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimiser."):
            _, index, key = name.split(".")
            # Adam counts its steps on the CPU, wherever the weights are.
            place = "cpu" if key == "step" else device
            state.setdefault(int(index), {})[key] = tensor.to(place)
    groups = optimiser.state_dict()["param_groups"]
    optimiser.load_state_dict({"state": state, "param_groups": groups})
    generator.set_state(tensors["generator"])
    return tensors["losses"].tolist()


# The log


def _rows(rows) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _start_log(path, rows) -> None:
    """Write the header and the rows up to the checkpoint; a killed run may have logged more."""
    content = _rows([("step", "loss", "learning_rate"), *rows])
    replace_file(path, lambda file: file.write(content.encode()))


def _append(path, row) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write(_rows([row]))
