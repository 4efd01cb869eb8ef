"""The texts, the Chinese probes and the list of peers."""

import unicodedata
from itertools import chain

import pytest

from benchmarks.peers.catalog import CONTENDERS, HERE, REQUIREMENTS, chosen
from benchmarks.peers.chinese import PROBES, distractors
from benchmarks.peers.texts import queries, texts
from benchmarks.peers.words import masked


def test_texts_are_different_and_the_same_in_every_run() -> None:
    made = texts(2_000)
    assert len({text.text for text in made}) == len({text.key for text in made}) == 2_000
    assert texts(500) == made[:500]
    assert min(len(text.text.split()) for text in made) >= 10
    assert texts(10, 8, "other")[0].key == "other-0"
    assert {text.text for text in texts(10, 8)}.isdisjoint(text.text for text in made)


def test_a_query_is_about_a_text_that_is_there() -> None:
    known = {text.key: text.text for text in texts(300)}
    asked = queries(60, 300)
    assert len({query.key for query in asked}) == 60
    for query in asked:
        words = {word.strip("?,;").lower() for word in known[query.key].split()}
        assert len(words & {word.strip("?,").lower() for word in query.text.split()}) >= 2
    assert len(queries(60, 20)) == 20


def plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.key)
def test_a_chinese_query_stands_in_its_own_entry_only(probe: object) -> None:
    assert probe in PROBES
    everything = [*((other.key, other.text) for other in PROBES), *distractors()]
    wanted = next(other for other in PROBES if other is probe)
    assert [key for key, text in everything if plain(wanted.query) in plain(text)] == [wanted.key]


def test_there_are_enough_probes_of_each_kind_and_real_distractors() -> None:
    asked = [probe.query for probe in PROBES]
    assert len(asked) >= 20
    assert len({probe.key for probe in PROBES}) == len(PROBES)
    assert any(len(query) == 1 for query in asked)
    assert any(not query.isascii() and any(letter.isascii() for letter in query) for query in asked)
    others = distractors()
    assert len({text for _, text in others}) == len(others) >= 200
    letters = set(chain.from_iterable(text for _, text in others))
    assert sum(bool(set(query) & letters) for query in asked) >= 5


def test_every_peer_has_its_script_and_pinned_packages() -> None:
    assert len({contender.name for contender in CONTENDERS}) == len(CONTENDERS)
    for contender in CONTENDERS:
        assert (HERE / "scripts" / f"{contender.script}.py").is_file()
        assert contender.ours == (contender.requirements is None)
        if contender.requirements:
            lines = (REQUIREMENTS / contender.requirements).read_text("utf-8").splitlines()
            assert lines
            assert all("==" in line for line in lines)
            assert not any(line.startswith(("torch", "nvidia")) for line in lines)


def test_peers_are_chosen_by_name_and_by_kind() -> None:
    assert chosen(None) == chosen("") == list(CONTENDERS)
    assert [one.name for one in chosen("numpy, kv+hybrid(fulltext, lancedb)")] == [
        "kv+hybrid(fulltext, lancedb)",
        "numpy",
    ]
    assert {one.kind for one in chosen("bare,memory")} == {"bare", "memory"}
    with pytest.raises(ValueError, match=r"no peer 'mem1'\. There are: .*mem0-qdrant"):
        chosen("mem1")


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("Storage folder /home/someone/data is in use", "Storage folder … is in use"),
        ("see https://example.org/x?y and  wait", "see … and wait"),
        (r"cannot open C:\Users\me\file.db", "cannot open …"),
        ("and/or stays, 1/2 too", "and/or stays, 1/2 too"),
        ("x" * 400, "x" * 300),
    ],
)
def test_what_peers_say_names_no_places_of_this_machine(said: str, shown: str) -> None:
    assert masked(said) == shown
