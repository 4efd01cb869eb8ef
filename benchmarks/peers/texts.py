"""The texts that every peer is given: made from a seed, so that a stranger's run has the same ones.

Each is a fact of 10 to 35 words as an assistant keeps them: words that stand in a tenth of all texts, words that stand
in one of forty, and a name that one of about three thousand has. A query asks in a sentence for one of them: every
second query gives the name, the others have common words only, so that many texts answer them as well.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass


def _split(text: str, by: str | None = None) -> list[str]:
    return [part.strip() for part in text.split(by)]


WHO = ["the user", "the team", "Alice", "Bob", "the customer", "Carol", "the manager", "Dmitri", "the client", "Mei"]
DOES = ["prefers", "avoids", "uses", "recommends", "dislikes", "maintains", "is learning", "bought", "wrote about"]
WHAT = _split("""
    Python Rust Kubernetes Postgres Redis Terraform espresso hiking chess violin jazz pottery sailing Vim Emacs Django
    Flask Solon Kafka Grafana Ansible Docker sourdough bouldering astronomy watercolour cycling gardening photography
    swimming GraphQL gRPC TypeScript Kotlin Haskell Erlang Elixir Prometheus OpenTelemetry SQLite LanceDB origami
""")
FOR = _split("""
    deployments reviews onboarding weekends reporting backups billing search migrations monitoring interviews travel
    invoices training support analytics releases incidents documentation experiments planning mentoring breakfast
""")
WHEN = _split(
    "since January, since last spring, on Mondays, every morning, after the incident, before releases, at the office,"
    "in the evening, during summer, when travelling, since the migration, at home",
    ",",
)
WHY = _split(
    "because it is faster, because the old way failed twice, after a long discussion, as the contract requires,"
    "although it costs more, because the documentation is better, since nobody else would, to keep the budget small",
    ",",
)
_STARTS = _split("bal cor den fal gar hel jor kal lum mar nor pel quin ras sel tor ul ver wil zan")
_ENDS = _split("ado bik cen dra ell fin gost holt ira jun kamp lov mir nek oss pran rud sten tave wick")


@dataclass(frozen=True, slots=True)
class Text:
    """A key and what is kept under it."""

    key: str
    text: str


@dataclass(frozen=True, slots=True)
class Query:
    """A question and the key of the text that it is about."""

    text: str
    key: str


def texts(count: int, seed: int = 7, prefix: str = "memory") -> list[Text]:
    """Return `count` different texts; the first ones are the same for every count."""
    return [made for made, _ in _made(count, seed, prefix)]


def queries(count: int, among: int, seed: int = 7, prefix: str = "memory") -> list[Query]:
    """Return `count` questions about different ones of the first `among` texts, as many as there are."""
    chosen = random.Random(seed + 1).sample(list(_made(among, seed, prefix)), min(count, among))
    found: list[Query] = []
    for number, (text, (who, what, use, name)) in enumerate(chosen):
        asked = f"What does {who} think of {what} for {use}" if number % 2 else f"Who told us about {what} and {name}"
        found.append(Query(f"{asked}?" if number % 3 else f"{asked}, and when was that?", text.key))
    return found


def _made(count: int, seed: int, prefix: str) -> Iterator[tuple[Text, tuple[str, str, str, str]]]:
    source = random.Random(seed)
    names = [a + b + c for a in _STARTS for b in _ENDS for c in ("", "en", "is", "or", "um", "ax", "ey", "ik")]
    for number in range(count):
        who, what, use = source.choice(WHO), source.choice(WHAT), source.choice(FOR)
        name = source.choice(names).capitalize()
        sentence = f"{who} {source.choice(DOES)} {what} for {use} {source.choice(WHEN)}"
        if source.random() < 0.6:
            sentence += f", {source.choice(WHY)}"
        sentence += f"; {name} from {source.choice(WHO)}'s side knows more about {source.choice(WHAT)} (note {number})."
        yield Text(f"{prefix}-{number}", sentence[0].upper() + sentence[1:]), (who, what, use, name)
