"""A transformer on onnxruntime: tokenize, run, pool."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np

from memory_core.errors import ConfigError, IndexUnavailableError
from memory_core.naming import short_hash
from memory_core.vectors import TextEmbedder, Vectors, folder_fingerprint, unknown_share
from memory_embedder_onnx import OnnxOptions

# Their stubs are missing or incomplete; without this every expression with them would be an error.
onnxruntime: Any = import_module("onnxruntime")
tokenizers: Any = import_module("tokenizers")

DEFAULT_MAX_TOKENS = 512
_FILES = ("model.onnx", "onnx/model.onnx")


class OnnxEmbedder(TextEmbedder):
    """Runs a model from a local directory; safe to use from several threads.

    Raises:
        ConfigError: The directory has no model, or one that is not understood.
    """

    def __init__(self, options: OnnxOptions) -> None:
        folder = Path(options.model).expanduser()
        path = _model_file(folder, options.file)
        settings = _Settings(folder)
        self.batch_size = options.batch_size
        self._pooling = options.pooling or settings.pooling
        limit = options.max_tokens or settings.max_tokens
        self._query_prompt = settings.query_prompt if options.query_prompt is None else options.query_prompt
        self._document_prompt = settings.document_prompt if options.document_prompt is None else options.document_prompt
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
            self._session = _session(path, options.threads)
        except Exception as error:
            raise ConfigError(
                f"[embedders.onnx]: the model in {folder} cannot be loaded "
                f"({type(error).__name__}: {' '.join(str(error).split())[:200]}). It needs `tokenizer.json` and an "
                "ONNX file of onnxruntime's version."
            ) from error
        self._tokenizer.enable_truncation(limit)
        self._tokenizer.no_padding()  # we pad by ourselves, each batch to its own longest text
        self._inputs = [item.name for item in self._session.get_inputs()]
        self._pad = settings.pad_id
        prompts = short_hash(self._document_prompt)
        settled = f"pooling={self._pooling}&max={limit}&prompt={prompts}"
        self._model_id = f"onnx/{folder.name}#{folder_fingerprint(folder)}/{path.name}?{settled}"
        self._dim = int(self._run(["a"]).shape[1])

    @property
    def model_id(self) -> str:  # noqa: D102 - the contract says it
        return self._model_id

    @property
    def dim(self) -> int:  # noqa: D102 - the contract says it
        return self._dim

    def encode(self, texts: list[str], *, query: bool) -> Vectors:  # noqa: D102 - the contract says it
        prompt = self._query_prompt if query else self._document_prompt
        return self._run([prompt + text for text in texts])

    def unknown_share(self, text: str) -> float:  # noqa: D102 - the contract says it
        return unknown_share(self._tokenizer, text)

    def _run(self, texts: list[str]) -> Vectors:
        encoded = self._tokenizer.encode_batch(texts)
        shape = (len(texts), max(1, *(len(item.ids) for item in encoded)))
        ids = np.full(shape, self._pad, dtype=np.int64)
        mask = np.zeros(shape, dtype=np.int64)
        for place, item in enumerate(encoded):
            ids[place, : len(item.ids)] = item.ids
            mask[place, : len(item.ids)] = 1
        known = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        try:
            output = self._session.run(None, {name: known[name] for name in self._inputs})[0]
        except KeyError as error:
            raise ConfigError(
                f"[embedders.onnx]: the model wants the input {error}, which is not supported."
            ) from error
        except Exception as error:
            raise IndexUnavailableError(f"The embedding model failed: {' '.join(str(error).split())[:200]}.") from error
        return output if output.ndim == 2 else self._pooled(output, mask)

    def _pooled(self, states: Any, mask: Any) -> Vectors:
        """Reduce token states (texts × tokens × dim) to one row a text."""
        if self._pooling == "cls":
            return cast("Vectors", states[:, 0])
        if self._pooling == "last":
            return cast("Vectors", states[np.arange(len(states)), np.maximum(mask.sum(axis=1) - 1, 0)])
        weights = mask[..., None].astype(np.float32)
        return cast("Vectors", (states * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1.0))


class _Settings:
    """What the model's directory says about itself, with the usual values for what it leaves out."""

    def __init__(self, folder: Path) -> None:
        pooling = _read(folder / "1_Pooling" / "config.json")
        mode = str(pooling.get("pooling_mode", ""))
        self.pooling = "mean"
        if pooling.get("pooling_mode_cls_token") or mode == "cls":
            self.pooling = "cls"
        elif pooling.get("pooling_mode_lasttoken") or mode == "lasttoken":
            self.pooling = "last"
        limits = (
            _read(folder / "sentence_bert_config.json").get("max_seq_length"),
            _read(folder / "tokenizer_config.json").get("model_max_length"),
        )
        known = [int(limit) for limit in limits if isinstance(limit, int | float) and 8 <= limit <= 100_000]
        self.max_tokens = min(known, default=DEFAULT_MAX_TOKENS)
        pad = _read(folder / "config.json").get("pad_token_id")
        self.pad_id = pad if isinstance(pad, int) else 0
        prompts = _read(folder / "config_sentence_transformers.json").get("prompts")
        own = cast("dict[str, Any]", prompts) if isinstance(prompts, dict) else {}
        e5 = "e5-" in folder.name.lower() and "instruct" not in folder.name.lower()
        self.query_prompt = str(own.get("query") or ("query: " if e5 else ""))
        self.document_prompt = str(own.get("document") or own.get("passage") or ("passage: " if e5 else ""))


def _read(path: Path) -> dict[str, Any]:
    try:
        found: Any = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _model_file(folder: Path, name: str | None) -> Path:
    for candidate in (name,) if name else _FILES:
        if (folder / candidate).is_file():
            return folder / candidate
    wanted = name or " or ".join(_FILES)
    raise ConfigError(
        f"[embedders.onnx]: there is no {wanted} in {folder}. Download a model with an ONNX file, for example "
        f"`hf download intfloat/multilingual-e5-small --local-dir {folder}`."
    )


def _session(path: Path, threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
