"""Tensors on disk: the safetensors format in a page, and a save that cannot destroy the last one.

A safetensors file is a length (8 bytes), a JSON header that says where each tensor lies, and the
tensors' bytes. Nothing in it is ever executed, unlike in a pickle. The format is small enough to be
written out here, so a checkpoint can be read with PyTorch and NumPy alone; the tests read the files
with the ``safetensors`` library, and that library's files with this module.

Source: https://github.com/huggingface/safetensors (README, "Format").
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

_DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "U8": "uint8",
    "BOOL": "bool",
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


def replace_file(path: Path | str, write: Callable) -> None:
    """Write a file so that at every moment either the old one or the new one is there, whole.

    The bytes go to ``<name>.partial`` beside it, are flushed to the disk, and only then is the
    file renamed: on one file system a rename happens or does not. A crash, a full disk or a
    ``kill -9`` in the middle leaves the old file as it was; a left-over ``.partial`` is
    overwritten by the next save.

    Args:
        path: the file; its folder must exist.
        write: called with the open binary file.

    Raises:
        OSError: the folder is missing or the disk is full.
    """
    path = Path(path)
    partial = path.with_name(path.name + ".partial")
    try:
        with open(partial, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def save_tensors(
    path: Path | str,
    tensors: Mapping[str, torch.Tensor],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write tensors to a safetensors file, replacing it in one step (``replace_file``).

    Args:
        path: usually ``*.safetensors``.
        tensors: name to tensor, any shape, on any device.
        metadata: texts to keep with them.

    Raises:
        OSError: see ``replace_file``.
        TypeError: a dtype that is not supported, or metadata that is not text.
    """
    header: dict = {}
    if metadata:
        wrong = {k: v for k, v in metadata.items() if not isinstance(v, str)}
        if wrong:
            raise TypeError(f"metadata must be text, got {wrong}")
        header["__metadata__"] = dict(metadata)
    raw, at = [], 0
    # Widest numbers first and then by name, as the library does: every tensor starts aligned.
    order = sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0]))
    for name, tensor in order:
        dtype = str(tensor.dtype).removeprefix("torch.")
        if dtype not in _NAMES:
            raise TypeError(f"{name} is {dtype}; it must be one of {', '.join(_NAMES)}")
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        data = flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
        header[name] = {
            "dtype": _NAMES[dtype],
            "shape": list(tensor.shape),
            "data_offsets": [at, at + len(data)],
        }
        raw.append(data)
        at += len(data)
    head = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    head += b" " * (-len(head) % 8)

    def write(file) -> None:
        file.write(struct.pack("<Q", len(head)))
        file.write(head)
        for data in raw:
            file.write(data)

    replace_file(path, write)


def load_tensors(path: Path | str) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Read a safetensors file.

    Args:
        path: the file.

    Returns:
        Name to tensor, on the CPU, and the metadata.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is not a whole safetensors file.
    """
    path = Path(path)
    content = path.read_bytes()
    size = struct.unpack("<Q", content[:8])[0] if len(content) >= 8 else 0
    try:
        header = json.loads(content[8 : 8 + size].decode())
        metadata = header.pop("__metadata__", {})
        end = max((entry["data_offsets"][1] for entry in header.values()), default=0)
        if len(content) != 8 + size + end:
            raise ValueError(f"{len(content)} bytes, expected {8 + size + end}")
        tensors = {}
        for name, entry in header.items():
            first, last = (8 + size + offset for offset in entry["data_offsets"])
            dtype = getattr(torch, _DTYPES[entry["dtype"]])
            data = torch.frombuffer(bytearray(content[first:last] or b"\0"), dtype=torch.uint8)
            data = data[: last - first].view(dtype)
            tensors[name] = data.reshape(entry["shape"])
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise ValueError(f"{path} is not a whole safetensors file: {error}") from error
    return tensors, metadata
