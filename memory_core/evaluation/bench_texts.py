"""Texts for measuring speed: made from a seed, so that no data set is needed and every run has the same ones.

Words follow Zipf's law (the n-th most frequent word has weight 1/n) over common English words and a long tail of
made-up names; one text in four is Chinese, one in eight mixes both. Texts have 8 to 40 words, as memories do.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from itertools import accumulate
from random import Random

from memory_core.model import SHARED_USER_ID, MemoryEntry, MemoryId
from memory_core.policy import expiry, ttl_by_importance


def _listed(words: str) -> list[str]:
    return words.split()


_COMMON = _listed(
    "the a to of and in for with on is that it user prefers uses project team after before every when because not "
    "works should meeting server report review deploy test release customer budget writes reads morning week friday "
    "office home travel coffee keyboard editor python database index cache query backup branch commit feature design "
    "document invoice contract deadline garden bicycle train guitar dinner family doctor school language lesson book "
    "likes avoids bought moved learned planned asked fixed changed keeps needs wants remembers agreed decided renamed "
    "short answers examples dark theme tabs spaces french spanish german tea music running cooking photos weather"
)
_SYLLABLES = _listed("ba cor den fal gim hol jan kel lum mar nov pel quin ros sel tor ur ves wil zan")
_HAN_COMMON = _listed(
    "用户 喜欢 使用 项目 团队 会议 服务器 数据库 报告 部署 测试 发布 客户 预算 每天 早上 周五 办公室 回家 咖啡 键盘 "
    "编辑器 索引 缓存 查询 备份 设计 文档 合同 截止 花园 自行车 火车 吉他 晚饭 家人 医生 学校 语言 课程 "
    "简短 回答 例子 深色 主题 茶 音乐 "
    "跑步 做饭 照片 天气 决定 修改 需要 记得 同意 学习 计划 不喜欢 因为 所以 以后 之前 前端 后端 接口 框架"
)
_HAN_CHARS = "山水风云江海星月松竹梅兰春夏秋冬东南西北金银铜铁青白赤玄安宁和平文武明光永长新旧天地人心石木火土"
_RARE = 4_000
_OPENINGS = ("what about", "which", "how does the user handle", "tell me about", "when is")


@cache
def _vocabulary(*, chinese: bool) -> tuple[list[str], list[float]]:
    """Return words, most frequent first, and their cumulative weights."""
    made = Random(f"vocabulary-{chinese}")
    words = list(_HAN_COMMON if chinese else _COMMON)
    rare: set[str] = set()
    while len(rare) < _RARE:
        if chinese:
            rare.add("".join(made.choices(_HAN_CHARS, k=made.choice((2, 2, 3)))))
        else:
            rare.add("".join(made.choices(_SYLLABLES, k=made.choice((2, 3, 3)))))
    words += sorted(rare - set(words))
    return words, list(accumulate(1.0 / rank for rank in range(1, len(words) + 1)))


def _words(source: Random, count: int, *, chinese: bool) -> list[str]:
    words, weights = _vocabulary(chinese=chinese)
    return source.choices(words, cum_weights=weights, k=count)


@dataclass(frozen=True, slots=True)
class Texts:
    """Memories by number and queries by number; the same seed gives the same ones.

    `given` are texts to use instead of made ones, `asked` queries that go with them.
    """

    seed: int = 0
    given: Sequence[str] = field(default=())
    asked: Sequence[str] = field(default=())

    def text(self, number: int) -> str:
        """Return the text of memory `number`."""
        if self.given:
            return self.given[number % len(self.given)]
        source = Random(f"{self.seed}-text-{number}")
        kind, length = number % 8, source.randint(8, 40)
        if kind in (1, 5):
            return "".join(_words(source, length // 2 + 4, chinese=True)) + "。"
        if kind == 3:
            english, chinese = _words(source, length // 2, chinese=False), _words(source, length // 4, chinese=True)
            return " ".join(english) + " " + "".join(chinese)
        return " ".join(_words(source, length, chinese=False)).capitalize() + "."

    def query(self, number: int, size: int) -> str:
        """Return query `number` over the first `size` memories: some words of one of them."""
        if self.asked:
            return self.asked[number % len(self.asked)]
        source = Random(f"{self.seed}-query-{number}")
        text = self.text(source.randrange(size))
        words = text.split()
        if len(words) < 4:
            start = source.randrange(max(1, len(text) - 6))
            return text[start : start + 6]
        return f"{source.choice(_OPENINGS)} {' '.join(source.sample(words, min(4, len(words))))}"

    def entry(self, number: int, now: datetime) -> MemoryEntry:
        """Return memory `number` as an entry: one in five for all workspaces, lifetimes by importance."""
        importance = number % 10 + 1
        return MemoryEntry(
            id=MemoryId("user" if number % 5 == 0 else "workspace", SHARED_USER_ID, self.key(number)),
            content=self.text(number),
            importance=importance,
            created_at=now,
            updated_at=now,
            expires_at=expiry(now, ttl_by_importance(importance)),
            source="bench",
        )

    @staticmethod
    def key(number: int) -> str:
        """Return the key of memory `number`; it says nothing about the text."""
        return f"m{number:07d}"
