"""The code in docs/context.md runs as it stands there."""

import re
from pathlib import Path

import pytest

from memory_core.context.config import CompactionConfig, PruneConfig, ToolResultEvictionConfig, TruncateArgsConfig

PAGE = Path(__file__).parents[2] / "docs" / "context.md"


def test_the_code_in_the_documentation_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert len(blocks) >= 5
    exec(compile("\n".join(blocks), str(PAGE), "exec"), {"__name__": "docs"})


@pytest.mark.parametrize("config", [CompactionConfig, TruncateArgsConfig, PruneConfig, ToolResultEvictionConfig])
def test_every_setting_is_documented(config: type[CompactionConfig]) -> None:
    text = PAGE.read_text("utf-8") + Path(__file__).parents[2].joinpath("memory_core/context/config.py").read_text(
        "utf-8"
    )
    assert [name for name in config.model_fields if f"`{name}`" not in text] == []
