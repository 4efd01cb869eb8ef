"""Both languages say the same things, and Chinese is Chinese throughout."""

import re
from dataclasses import fields
from string import Formatter

import pytest

from memory_core.talent import MemoryTalent
from memory_core.talent.wording import EN, ZH, Wording, wording
from memory_core.testing import make_entry

from .conftest import Bench

NAMES = [field.name for field in fields(Wording)]


def places(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}


@pytest.mark.parametrize("name", NAMES)
def test_both_languages_have_the_same_places_to_fill_in(name: str) -> None:
    assert places(getattr(EN, name)) == places(getattr(ZH, name))


@pytest.mark.parametrize("name", NAMES)
def test_both_languages_name_the_same_tools_and_stars(name: str) -> None:
    english, chinese = getattr(EN, name), getattr(ZH, name)
    assert set(re.findall(r"memory_\w+", english)) <= set(re.findall(r"memory_\w+", chinese)) | {"memory_search"}
    assert ("*" in english) == ("*" in chinese)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "line"])
def test_each_sentence_is_in_its_language(name: str) -> None:
    assert not re.search(r"[\u4e00-\u9fff]", getattr(EN, name))
    assert re.search(r"[\u4e00-\u9fff]", getattr(ZH, name))


@pytest.mark.parametrize("name", NAMES)
def test_chinese_uses_chinese_punctuation_between_chinese_words(name: str) -> None:
    assert not re.search(r"[\u4e00-\u9fff][,;:!?()][ \u4e00-\u9fff]", getattr(ZH, name))


@pytest.mark.parametrize(("locale", "found"), [("en", EN), ("zh", ZH), ("zh-CN", ZH), ("zh_TW", ZH), ("EN-us", EN)])
def test_locales_are_found_by_their_language(locale: str, found: Wording) -> None:
    assert wording(locale) is found


def test_a_chinese_agent_reads_chinese(bench: Bench) -> None:
    talent = MemoryTalent(bench.provider, locale="zh")
    saved = talent.extract("user-drink", "喜欢喝咖啡", 8)
    assert saved.text == "已保存 user-drink（作用域 workspace，重要度 8，2026-03-31 12:00 UTC 到期）。"
    assert "永久保留" in talent.extract("me", "名叫小黑", "10/10").text
    assert "覆盖了 2026-03-01 12:00 存入的旧内容：喜欢喝咖啡" in talent.extract("user-drink", "喜欢喝茶", 8).text
    assert "喜欢喝茶" in talent.search("茶").text
    assert talent.search("*").text.startswith("共 2 条记忆")
    assert talent.recall("nothing-here").text.startswith("没有 key 为 nothing-here 的记忆。")
    assert talent.prune("user-drink").text == "已删除 user-drink，所在作用域：workspace。"
    assert talent.extract("k", "f", "八").text.startswith("操作失败：importance 须为 1 到 10 的整数")
    block = talent.instruction("小黑")
    assert block.startswith("## 长期记忆")
    assert "（重要度 10）：名叫小黑" in block
    assert "user（用户全局）" in block
    assert all(re.search(r"[\u4e00-\u9fff]", tool.description) for tool in talent.tools())


def test_the_cut_listing_is_said_in_chinese(bench: Bench) -> None:
    bench.storer.put_many(make_entry(f"k{n}") for n in range(101))
    assert (
        MemoryTalent(bench.provider, locale="zh").search("*").text.endswith("列表只显示前 100 条；其余请用关键词查找。")
    )
