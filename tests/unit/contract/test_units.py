"""Durations, quantities and amounts: the spellings that Go, Kubernetes and this reader share."""

import re
from decimal import Decimal

import pytest

from penstock.base.units import (
    DURATION_PATTERN,
    SIGNED_DURATION_PATTERN,
    duration_s,
    duration_us,
    quantity_bytes,
    quantity_text,
    resource_amount,
    signed_duration_us,
    span_text,
)


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("0", 0),
        ("0s", 0),
        ("10s", 10_000_000),
        ("1m30s", 90_000_000),
        ("1.5h", 5_400_000_000),
        ("1s500ms", 1_500_000),
        ("86400000ms", 86_400_000_000),
        ("0.0000004s", 0),
    ],
)
def test_durations(text: str, microseconds: int) -> None:
    assert duration_us(text) == microseconds
    assert duration_s(text) == microseconds / 1_000_000


@pytest.mark.parametrize(
    "text",
    ["", "5", "10 s", "10S", "1w", "-1s", "30s1m", "1s1s", "s", "1.s", ".5s", "9999999h", "10s\n"],
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration"):
        duration_us(text)


@pytest.mark.parametrize(
    ("text", "us"), [("10m", 600_000_000), ("-5m", -300_000_000), ("0", 0), ("-1s500ms", -1_500_000)]
)
def test_durations_that_may_be_negative(text: str, us: int) -> None:
    assert signed_duration_us(text) == us
    assert re.fullmatch(SIGNED_DURATION_PATTERN, text)


@pytest.mark.parametrize("text", ["", "-", "--1s", "- 1s", "1s-", "-s", "+1s", "-30s1m"])
def test_what_is_no_signed_duration(text: str) -> None:
    assert not re.fullmatch(SIGNED_DURATION_PATTERN, text)
    with pytest.raises(ValueError, match="is no duration"):
        signed_duration_us(text)


def test_the_largest_duration_fits_64_bits_of_nanoseconds() -> None:
    parts = re.findall(r"\{1,(\d+)\}[^dh-u]*?([hmu]?s|d|h|m)\)", DURATION_PATTERN)
    longest = "".join("9" * int(digits) + unit for digits, unit in parts)
    assert longest == "9999d999999h999999m999999999s" + "9" * 12 + "ms" + "9" * 12 + "us"
    assert sum(duration_us(part) for part in re.findall(r"\d+[a-z]+", longest)) < 2**63 / 1000


@pytest.mark.parametrize(
    ("value", "size"),
    [(7, 7), ("7", 7), ("64Ki", 65536), ("1.5G", 1_500_000_000), ("0", 0), ("2T", 2 * 10**12)],
)
def test_quantities(value: str | int, size: int) -> None:
    assert quantity_bytes(value) == size


@pytest.mark.parametrize("value", ["", "64MB", "-1", -1, "1e3", "1.Gi", "0x10", "1" * 16])
def test_what_is_no_quantity(value: str | int) -> None:
    with pytest.raises(ValueError, match="is no quantity"):
        quantity_bytes(value)


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("500m", "0.5"),
        ("2", "2"),
        (".5", "0.5"),
        ("5.", "5"),
        ("1e3", "1000"),
        ("1E", "1000000000000000000"),
        ("1.5Gi", "1610612736"),
        ("3n", "0.000000003"),
    ],
)
def test_amounts_are_exact(text: str, amount: str) -> None:
    assert resource_amount(text) == Decimal(amount)


@pytest.mark.parametrize("text", ["", "-1", "1KB", ".", "1e", "m"])
def test_what_is_no_amount(text: str) -> None:
    with pytest.raises(ValueError, match="is no amount"):
        resource_amount(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(600.0, "10m"), (5400.0, "1h30m"), (2.5, "2.5s"), (61.0, "1m1s"), (0.0, "0s"), (0.2, "200ms")],
)
def test_spans_are_spelt_as_one_would_write_them(seconds: float, text: str) -> None:
    assert span_text(seconds) == text
    assert duration_s(text) == seconds


@pytest.mark.parametrize(("size", "text"), [(0, 0), (1000, 1000), (1024, "1Ki"), (10 * 1024**3, "10Gi"), (1536, 1536)])
def test_quantities_are_spelt_as_one_would_write_them(size: int, text: str | int) -> None:
    assert quantity_text(size) == text
    assert quantity_bytes(text) == size
