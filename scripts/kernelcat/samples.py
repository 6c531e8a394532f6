"""Statistics of latency samples."""

import math


def quantile(ordered: list[float], q: float) -> float:
    """The `q`-quantile of sorted values, by linear interpolation at q·(n-1), as triton.testing.do_bench computes it."""
    position = q * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def median_interval(ordered: list[float]) -> tuple[float, float]:
    """The 95 % confidence interval of the median of sorted values, from order statistics: the values at the ranks
    n/2 ± 1.96·sqrt(n)/2 (Conover, Practical Nonparametric Statistics, section 3.2), cut at the smallest and largest."""
    count = len(ordered)
    half_width = 1.96 * math.sqrt(count) / 2
    low = max(0, math.floor(count / 2 - half_width) - 1)
    high = min(count - 1, math.ceil(count / 2 + half_width))
    return ordered[low], ordered[high]


def summary(samples: list[float]) -> dict[str, float]:
    """median, mean, p05, p20, p80, p95, minimum, maximum and mad (median absolute deviation) in the samples' unit."""
    ordered = sorted(samples)
    median = quantile(ordered, 0.5)
    return {
        "median": median,
        "mean": math.fsum(ordered) / len(ordered),
        "p05": quantile(ordered, 0.05),
        "p20": quantile(ordered, 0.2),
        "p80": quantile(ordered, 0.8),
        "p95": quantile(ordered, 0.95),
        "minimum": ordered[0],
        "maximum": ordered[-1],
        "mad": quantile(sorted(abs(value - median) for value in ordered), 0.5),
    }


def half_width(samples: list[float]) -> float:
    """Half the width of the median's 95 % confidence interval, as a part of the median."""
    ordered = sorted(samples)
    low, high = median_interval(ordered)
    median = quantile(ordered, 0.5)
    return (high - low) / 2 / median if median else math.inf
