"""Networks of API keys: how they are written, and whom they hold."""

from __future__ import annotations

import pytest

from jobstore.key_fields import KeyFieldError, checked
from jobstore.key_networks import canonical, within


@pytest.mark.parametrize(
    ("text", "network"),
    [
        ("10.0.0.0/8", "10.0.0.0/8"),
        (" 192.0.2.7 ", "192.0.2.7/32"),
        ("0.0.0.0/0", "0.0.0.0/0"),
        ("10.0.0.0/255.0.0.0", "10.0.0.0/8"),
        ("2001:DB8:0::/32", "2001:db8::/32"),
        ("::1", "::1/128"),
        ("::/0", "::/0"),
    ],
)
def test_a_network_has_one_form(text: str, network: str) -> None:
    """Whatever way it was written."""
    assert canonical(text) == network == canonical(network)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("10.0.0.1/8", "an address within 10.0.0.0/8"),
        ("10.0.0.0/33", "no network"),
        ("10.0.0", "no network"),
        ("example.org", "no network"),
        ("", "no network"),
        ("::ffff:10.0.0.0/104", "write it as IPv4"),
        ("fe80::1%eth0", "no network"),
        ("1/8", "no network"),
        ("x" * 5000, "no network"),
    ],
)
def test_what_is_no_network_is_refused(text: str, words: str) -> None:
    """With what is wrong, and not all of it."""
    with pytest.raises(ValueError, match=words) as caught:
        canonical(text)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("address", "inside"),
    [
        ("10.255.0.1", True),
        ("11.0.0.1", False),
        ("::ffff:10.0.0.1", True),
        ("::ffff:11.0.0.1", False),
        ("2001:db8::7", True),
        ("2001:db8::7%eth0", True),
        ("2001:db9::7", False),
        ("192.0.2.7", True),
        ("192.0.2.8", False),
        ("", False),
        ("unknown", False),
        ("10.0.0.1:80", False),
        (None, False),
    ],
)
def test_who_is_within(address: str | None, inside: bool) -> None:
    """By the address alone, in either family; what is no address is nowhere."""
    assert within(("10.0.0.0/8", "192.0.2.7/32", "2001:db8::/32"), address) is inside


def test_a_key_has_a_few_networks_in_order() -> None:
    """Once each, and at most 32; none named is anywhere."""

    def asked(value: object) -> object:
        return checked({"networks": value}, lambda name: name)["networks"]

    assert asked(("192.0.2.7", "10.0.0.0/8", "10.0.0.0/255.0.0.0")) == ("10.0.0.0/8", "192.0.2.7/32")
    assert asked(None) is None
    for wrong in ((), tuple(f"10.0.{part}.0/24" for part in range(33)), ("10.0.0.1/8",)):
        with pytest.raises(KeyFieldError, match="networks must be"):
            asked(wrong)
