"""Sizes as people write them."""

import pytest

import cenote


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (0, 0),
        (8, 8),
        ("8GiB", 8 << 30),
        ("1.5GiB", 3 << 29),
        ("500MB", 500_000_000),
        ("2KB", 2000),
        ("2KiB", 2048),
        ("100B", 100),
        ("1TiB", 1 << 40),
        ("3kB", 3000),
        ("4096", 4096),
        ("0", 0),
        ("50%", 500),
        ("100%", 1000),
        ("12.5%", 125),
    ],
)
def test_accepted(text, size):
    assert cenote.parse_size(text, total_bytes=1000) == size


@pytest.mark.parametrize(
    "text",
    # fmt: off
    ["", "8", "1023", "0.15", "8 GB?", "8 GiB", " 8GiB", ".5GiB", "5.GiB", "8G", "8gb", "-1GiB",
     "GiB", "1e9", "0%", "101%", "1.5B", "0x10B", "nanGiB", "20000000TiB", -1, 2**64],
    # fmt: on
)
def test_refused(text):
    with pytest.raises(ValueError):
        cenote.parse_size(text, total_bytes=1000)


@pytest.mark.parametrize("value", [0.15, 1.0, True, None, b"8GiB", [8]])
def test_types_refused(value):
    with pytest.raises(TypeError):
        cenote.parse_size(value)


def test_a_share_needs_a_total():
    with pytest.raises(ValueError, match="total"):
        cenote.parse_size("50%")
