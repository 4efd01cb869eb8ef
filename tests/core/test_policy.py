"""Lifetimes and counts: every border on both sides."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core.errors import BudgetError, ConfigError
from memory_core.policy import DEFAULT_TTL, FOREVER, check_count, check_ttl_table, expiry, ttl_by_importance
from memory_core.testing.clock import START


@pytest.mark.parametrize(
    ("importance", "ttl_s"),
    [(1, 604_800), (4, 604_800), (5, 2_592_000), (9, 2_592_000), (10, FOREVER), (11, FOREVER), (0, 604_800)],
)
def test_the_default_lifetimes(importance: int, ttl_s: int) -> None:
    assert ttl_by_importance(importance) == ttl_s


def test_the_highest_row_that_is_reached_decides() -> None:
    table = {3: 30, 7: 70}
    assert [ttl_by_importance(n, table) for n in (1, 2, 3, 6, 7, 10)] == [30, 30, 30, 30, 70, 70]


@pytest.mark.parametrize("ttl_s", [0, -2, -604_800])
def test_a_lifetime_of_nothing_is_refused(ttl_s: int) -> None:
    with pytest.raises(ConfigError, match=str(ttl_s)):
        expiry(START, ttl_s)


@given(st.one_of(st.none(), st.integers(-1, 10**30).filter(lambda n: n != 0)))
def test_a_lifetime_counts_in_seconds_or_means_for_ever(ttl_s: int | None) -> None:
    moment = expiry(START, ttl_s)
    if ttl_s is None or ttl_s == FOREVER:
        assert moment is None
    elif moment is not None:
        assert moment - START == timedelta(seconds=ttl_s)
        assert moment.tzinfo is UTC
    else:
        assert ttl_s > 7_000 * 365 * 86_400


def test_daylight_saving_and_zones_do_not_matter() -> None:
    berlin = datetime(2026, 3, 29, 1, 30, tzinfo=timezone(timedelta(hours=1)))
    assert expiry(berlin, 3600) == datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    assert expiry(datetime.max.replace(tzinfo=UTC), 1) is None
    assert expiry(datetime.max.replace(tzinfo=timezone(timedelta(hours=-5))), 1) is None


@pytest.mark.parametrize("table", [{}, {0: 5}, {11: 5}, {5: 0}, {5: -2}])
def test_a_table_that_cannot_serve_is_refused(table: dict[int, int]) -> None:
    with pytest.raises(ConfigError):
        check_ttl_table(table)


def test_a_good_table_passes() -> None:
    assert check_ttl_table(DEFAULT_TTL) is DEFAULT_TTL
    assert check_ttl_table({1: FOREVER})


@pytest.mark.parametrize("value", [-1, 1.0, "5", None, True])
def test_a_count_is_a_whole_number(value: Any) -> None:
    with pytest.raises(BudgetError, match="relevance_count"):
        check_count(value, "relevance_count")


def test_a_count_has_a_floor() -> None:
    assert check_count(0, "n") == 0
    assert check_count(10, "n", 10) == 10
    with pytest.raises(BudgetError, match="at least 10"):
        check_count(9, "n", 10)
