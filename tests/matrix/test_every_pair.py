"""What a user of the library sees, the same for every store and every index."""

from memory_core import MemoryTalent
from memory_core.testing import FakeClock

from .pairs import DENSE, Pair, found_keys, listed


def test_two_languages_scopes_and_shadowing(pair: Pair) -> None:
    solution = pair.open()
    solution.remember("editor", "Prefers vim over every other text editor", 8)
    solution.remember("技术栈", "后端使用Solon框架，数据库是PostgreSQL", 7)
    solution.remember("drink", "Drinks green tea in the morning", 5, scope="user")
    solution.remember("editor", "Uses emacs as the text editor elsewhere", 9, scope="user")
    hits = solution.search("which text editor?", top_k=9)
    assert found_keys(hits)[0] == "editor"
    assert found_keys(hits).count("editor") == 1
    assert hits[0].entry.id.scope == "workspace"
    assert all(0 <= hit.score <= 1 for hit in hits)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    in_user = solution.search("text editor", top_k=9, scopes=["user"])
    assert "emacs" in in_user[0].entry.content
    assert {hit.entry.id.scope for hit in in_user} == {"user"}
    chinese = found_keys(solution.search("使用Solon框架", top_k=9))
    assert "技术栈" in chinese
    if pair.searcher not in DENSE:
        assert chinese[0] == "技术栈"
    assert found_keys(solution.search("技术栈", top_k=1)) == ["技术栈"]
    assert [entry.id.key for entry in solution.hot()] == ["editor", "技术栈", "drink"]
    assert listed(solution) == {("workspace", "editor"), ("workspace", "技术栈"), ("user", "drink")}
    assert solution.forget("editor", scope="workspace") == ("workspace",)
    assert "emacs" in solution.search("text editor", top_k=1)[0].entry.content
    assert solution.forget("editor") == ("user",)
    assert "editor" not in found_keys(solution.search("text editor", top_k=9))
    assert solution.recall("editor") is None
    assert solution.problems() == []


def test_an_update_replaces_and_a_merge_leaves_only_the_insight(pair: Pair) -> None:
    solution = pair.open()
    solution.remember("pet", "Has a cat named Whiskers")
    assert found_keys(solution.search("cat Whiskers", top_k=3)) == ["pet"]
    solution.remember("pet", "Has a dog named Rex")
    hits = solution.search("dog Rex", top_k=3)
    assert [hit.entry.content for hit in hits] == ["Has a dog named Rex"]
    solution.remember("饮食-1", "早上喜欢喝豆浆", 3)
    solution.remember("饮食-2", "中午喜欢吃面条", 3, scope="user")
    done = solution.consolidate(["饮食-1", "饮食-2", "没有"], "饮食", "早上豆浆，中午面条")
    assert {id.key for id in done.removed} == {"饮食-1", "饮食-2"}
    assert done.missing == ("没有",)
    keys = found_keys(solution.search("喜欢豆浆面条", top_k=9))
    assert not {"饮食-1", "饮食-2"} & set(keys)
    assert listed(solution) == {("workspace", "pet"), ("workspace", "饮食")}
    pair.close()
    again = pair.open()
    assert listed(again) == {("workspace", "pet"), ("workspace", "饮食")}
    assert [hit.entry.content for hit in again.search("dog Rex", top_k=1)] == ["Has a dog named Rex"]


def test_tenants_see_nothing_of_each_other(pair: Pair) -> None:
    solution = pair.open()
    users = ["alice", "alice:x", "ALICE", "小明", "a/b", "..", "*"]
    for user in users:
        for scope in ("workspace", "user"):
            solution.remember("plan", f"The secret plan of tenant {user} in {scope}", user_id=user, scope=scope)
    for user in users:
        hits = solution.search("secret plan tenant", user_id=user, top_k=50)
        assert [(hit.entry.id.user_id, hit.entry.id.scope) for hit in hits] == [(user, "workspace")]
        assert [entry.id.user_id for entry in solution.hot(user_id=user, limit=50)] == [user]
    assert solution.search("secret plan tenant", user_id="al", top_k=50) == []
    assert solution.forget("plan", user_id="*") == ("user", "workspace")
    assert listed(solution, "*") == set()
    assert listed(solution, "alice") == {("workspace", "plan")}


def test_back_after_an_hour_away(pair: Pair, clock: FakeClock) -> None:
    reader = pair.open("reader")
    reader.remember("meeting", "Project meeting at noon", 8, ttl_s=1_800)
    reader.remember("project", "Project deadline is in June", 8)
    reader.remember("old", "Project codename was Falcon", 8)
    reader.remember("plan", "Project plan for everybody", 8, scope="user")
    reader.remember("plan", "Project plan for half an hour", 8, ttl_s=1_800)
    assert set(found_keys(reader.search("project", top_k=9))) == {"meeting", "project", "old", "plan"}
    provider = pair.opened[-1]
    assert "noon" in MemoryTalent(provider).instruction("project", cwd=pair.work)
    clock.advance(hours=1)
    writer = pair.open("writer")
    writer.remember("review", "Project review is on Friday", 8)
    writer.remember("project", "Project deadline moved to July", 8)
    writer.forget("old")
    expected = {"project", "review", "plan"}
    hits = reader.search("project", top_k=9)
    assert set(found_keys(hits)) == expected
    assert not [hit for hit in hits if "June" in hit.entry.content or "half" in hit.entry.content]
    assert {entry.id.key for entry in reader.hot(limit=9)} == expected
    assert {key for _, key in listed(reader)} == expected
    assert reader.recall("meeting") is None
    injected = MemoryTalent(provider).instruction("project", cwd=pair.work)
    assert "Friday" in injected
    assert "July" in injected
    assert not [gone for gone in ("noon", "June", "Falcon", "half an hour") if gone in injected]


def test_one_node_finds_what_another_wrote_without_a_rebuild(pair: Pair) -> None:
    one, two = pair.open("-one"), pair.open("-two")
    for number in range(5):
        one.remember(f"base-{number}", f"Base fact number {number}")
    assert two.sync() == 5
    one.remember("node", "Written by the first node about kubernetes")
    one.forget("base-3")
    assert two.sync() == 2, "only what changed is read"
    keys = found_keys(two.search("kubernetes node", top_k=9))
    assert keys[0] == "node"
    assert "base-3" not in keys
    two.remember("节点", "第二个节点写入的记忆")
    assert found_keys(one.search("节点", top_k=1)) == ["节点"]
    assert listed(one) == listed(two)
