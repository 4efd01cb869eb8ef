"""Writes figures for people: three decimals, intervals, p-values."""

from memory_core.evaluation.confidence import Difference, Interval


def with_interval(score: Interval) -> str:
    """Return a score and its interval for people: `.434 [.418, .451]`."""
    return f"{digits(score.mean)} [{digits(score.low)}, {digits(score.high)}]"


def signed(pair: Difference) -> str:
    """Return a difference and its interval for people: `+.021 [+.013, +.029]`."""
    return f"{digits(pair.mean, '+')} [{digits(pair.low, '+')}, {digits(pair.high, '+')}]"


def digits(value: float, sign: str = "") -> str:
    """Return three decimals without the zero before the point."""
    return f"{value:{sign}.3f}".replace("0.", ".", 1) if abs(value) < 0.9995 else f"{value:{sign}.3f}"


def chance(p: float) -> str:
    """Return a p-value for people."""
    return "< .001" if p < 0.001 else digits(p)
