"""What every provider must do."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memory_core.contracts import MemorySolutionProvider

OpenProvider = Callable[[], MemorySolutionProvider]


class ProviderContract:
    """Subclass it and give the fixture `open_provider`: builds the provider anew over the same data."""

    @pytest.fixture
    def open_provider(self) -> OpenProvider:
        """Return how to build the provider under test."""
        raise NotImplementedError("give your test class a fixture `open_provider`")

    @pytest.fixture
    def provider(self, open_provider: OpenProvider) -> Iterator[MemorySolutionProvider]:
        """The provider under test."""
        provider = open_provider()
        yield provider
        provider.close()

    @pytest.fixture
    def one(self, tmp_path: Path) -> Path:
        """A working directory."""
        (tmp_path / "one").mkdir()
        return tmp_path / "one"

    @pytest.fixture
    def two(self, tmp_path: Path) -> Path:
        """Another working directory."""
        (tmp_path / "two").mkdir()
        return tmp_path / "two"

    def test_the_same_directory_gives_the_same_solution(self, provider: MemorySolutionProvider, one: Path) -> None:
        assert provider.get(one) is provider.get(str(one))
        assert provider.get(one) is provider.get(one / ".." / one.name)

    def test_workspaces_are_separate_and_the_user_is_not(
        self, provider: MemorySolutionProvider, one: Path, two: Path
    ) -> None:
        provider.get(one).remember("k", "only in one")
        provider.get(one).remember("everywhere", "known to both", scope="user")
        assert provider.get(two).recall("k") is None
        entry = provider.get(two).recall("everywhere")
        assert entry is not None
        assert entry.content == "known to both"
        assert [hit.entry.id.key for hit in provider.get(two).search("known")] == ["everywhere"]

    def test_memories_survive_a_restart(
        self, provider: MemorySolutionProvider, open_provider: OpenProvider, one: Path
    ) -> None:
        stored = provider.get(one).remember("k", "使用Solon框架", 8).entry
        provider.close()
        again = open_provider()
        try:
            assert again.get(one).recall("k") == stored
            assert [hit.entry for hit in again.get(one).search("框架")] == [stored]
        finally:
            again.close()

    def test_scopes_are_described(self, provider: MemorySolutionProvider, one: Path) -> None:
        solution = provider.get(one)
        assert provider.scopes_default() in solution.scopes
        for locale in ("en", "zh"):
            text = provider.scopes_description(locale)
            assert all(scope in text for scope in solution.scopes)

    def test_nothing_is_written_before_the_first_memory(self, provider: MemorySolutionProvider, one: Path) -> None:
        assert provider.get(one).search("anything") == []
        assert provider.get(one).recall("k") is None
        assert list(one.iterdir()) == []
