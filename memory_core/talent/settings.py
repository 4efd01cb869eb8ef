"""Settings that may change at run time: whole numbers, checked whenever they are set."""

from typing import Any, overload

from memory_core.policy import check_count


class Count:
    """A whole number of at least `at_least` as an attribute of its owner.

    Setting anything else raises `BudgetError` and changes nothing.
    """

    def __init__(self, doc: str, at_least: int = 0) -> None:
        self.__doc__ = doc
        self._at_least = at_least

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self._name = name

    @overload
    def __get__(self, owner: None, kind: type[Any]) -> "Count": ...
    @overload
    def __get__(self, owner: object, kind: type[Any] | None = None) -> int: ...
    def __get__(self, owner: object | None, kind: type[Any] | None = None) -> "int | Count":
        if owner is None:
            return self
        value: int = owner.__dict__[self._name]
        return value

    def __set__(self, owner: object, value: int) -> None:
        owner.__dict__[self._name] = check_count(value, self._name, self._at_least)
