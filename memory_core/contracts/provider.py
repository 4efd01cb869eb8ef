"""What gives the solution for a working directory."""

from abc import ABC, abstractmethod
from pathlib import Path

from memory_core.contracts.solution import MemorySolution
from memory_core.locales import language


class MemorySolutionProvider(ABC):
    """Gives the solution that serves a working directory."""

    @abstractmethod
    def get(self, cwd: Path | str) -> MemorySolution:
        """Return the solution for `cwd`; the same object for the same directory."""

    def scopes_default(self) -> str:
        """Return the scope that is written when none is named."""
        return "workspace"

    def scopes_description(self, locale: str = "en") -> str:
        """Return one sentence for the model: which scopes there are and when to use which."""
        if language(locale) == "zh":
            return "存储作用域：workspace（当前工作区，默认）或 user（用户全局）。跨项目通用的认知请存入 user。"
        return "Scope: workspace (this project, the default) or user (everywhere; for what holds across projects)."

    def close(self) -> None:
        """Close every solution that was handed out."""
        return
