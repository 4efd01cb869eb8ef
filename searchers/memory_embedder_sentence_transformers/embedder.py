"""A model of sentence-transformers, loaded at its first use."""

import os
from pathlib import Path
from threading import RLock
from typing import Any

from memory_core.errors import ConfigError, IndexUnavailableError
from memory_core.naming import short_hash
from memory_core.vectors import TextEmbedder, folder_fingerprint, unknown_share
from memory_embedder_sentence_transformers import SentenceTransformersOptions

SMALL_MACHINE_CORES = 4
_E5_PROMPTS = ("query: ", "passage: ")


class SentenceTransformersEmbedder(TextEmbedder):
    """Encodes with torch; calls are serialised, because the library's tokenizers may not be used side by side.

    The model's identity is known without loading it: its name and revision, or the fingerprint of its directory.
    """

    def __init__(self, options: SentenceTransformersOptions) -> None:
        self._options = options
        self._lock = RLock()
        self._model: Any = None
        folder = Path(options.model).expanduser()
        local = folder.is_dir()
        self._source = str(folder) if local else options.model
        name = f"{folder.name}#{folder_fingerprint(folder)}" if local else options.model
        revision = f"@{options.revision}" if options.revision else ""
        e5 = "e5-" in folder.name.lower() and "instruct" not in folder.name.lower()
        defaults = _E5_PROMPTS if e5 else (None, None)
        self._query_prompt = options.query_prompt if options.query_prompt is not None else defaults[0]
        self._document_prompt = options.document_prompt if options.document_prompt is not None else defaults[1]
        prompts = "own" if self._document_prompt is None else short_hash(self._document_prompt)
        self._model_id = f"sentence-transformers/{name}{revision}?prompt={prompts}&dim={options.dim or 'full'}"
        self.batch_size = max(64, options.batch_size)

    @property
    def model_id(self) -> str:  # noqa: D102 - the contract says it
        return self._model_id

    @property
    def dim(self) -> int:
        """The length of each vector; loads the model.

        Raises:
            ConfigError: The model cannot be loaded.
        """
        return int(self._loaded().get_embedding_dimension())

    def encode(self, texts: list[str], *, query: bool) -> Any:  # noqa: D102 - the contract says it
        model = self._loaded()
        prompt = self._query_prompt if query else self._document_prompt
        if prompt is None:
            names = ("query",) if query else ("document", "passage", "corpus")
            prompt = next((model.prompts[name] for name in names if model.prompts.get(name)), "")
        with self._lock:
            try:
                return model.encode(
                    texts, prompt=prompt, batch_size=self._options.batch_size, show_progress_bar=False,
                    convert_to_numpy=True,
                )  # fmt: skip
            except (RuntimeError, ValueError, OSError) as error:
                raise IndexUnavailableError(
                    f"The embedding model {self._options.model!r} failed: {' '.join(str(error).split())[:200]}. "
                    "Check memory and the option `device`."
                ) from error

    def unknown_share(self, text: str) -> float:  # noqa: D102 - the contract says it
        tokenizer = getattr(self._loaded().tokenizer, "backend_tokenizer", None)
        if tokenizer is None:
            return 0.0
        with self._lock:
            return unknown_share(tokenizer, text)

    def close(self) -> None:
        """Let go of the model; a later call loads it again."""
        with self._lock:
            self._model = None

    def _loaded(self) -> Any:
        with self._lock:
            if self._model is None:
                self._model = self._load()
            return self._model

    def _load(self) -> Any:
        import torch
        from sentence_transformers import SentenceTransformer

        options = self._options
        threads = options.threads or (1 if (os.cpu_count() or 1) <= SMALL_MACHINE_CORES else None)
        if threads is not None:
            torch.set_num_threads(threads)
        try:
            # Code that comes with a model is never run: `trust_remote_code` stays off and is no option.
            return SentenceTransformer(
                self._source, device=options.device, revision=options.revision, truncate_dim=options.dim,
                trust_remote_code=False,
            )  # fmt: skip
        except Exception as error:
            raise ConfigError(
                f"[embedders.sentence-transformers]: the model {options.model!r} cannot be loaded "
                f"({type(error).__name__}: {' '.join(str(error).split())[:200]}). Give a local directory, or a name on "
                "the Hugging Face hub with the network reachable."
            ) from error
