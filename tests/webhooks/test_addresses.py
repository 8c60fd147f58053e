"""Which addresses are refused: when they are named, and when their names point somewhere else."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from ipaddress import ip_address
from pathlib import Path

import httpx
import msgspec
import pytest

from actors.webhooks.connecting import _in_turn
from actors.webhooks.sending import Sender, SendError
from jobstore.webhooks.addresses import Address, AddressRules, RefusedAddressError
from safelight.config import WebhookSettings
from tests.webhooks.receiver import Receiver, certificate, receiver

REFUSED = [
    "https://127.0.0.1/", "https://127.8.8.8/", "https://[::1]/", "https://169.254.169.254/latest/meta-data",
    "https://user@host.example/", "https://user:secret@host.example/", "https://@host.example/:443@127.0.0.1",
    "https://10.0.0.1", "https://172.16.0.1", "https://192.168.1.1", "https://100.64.0.1", "https://0.0.0.0",
    "https://224.0.0.1", "https://255.255.255.255", "https://240.0.0.1", "https://192.0.2.1", "https://198.18.0.1",
    "https://192.88.99.1", "https://2130706433/", "https://0x7f000001/", "https://0x7f.1/", "https://0177.0.0.1/",
    "https://127.1/", "https://1.2.3.4.5/", "https://127.0.0.1./", "https://[::]/", "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:7f00:1]/", "https://[::127.0.0.1]/", "https://[64:ff9b::7f00:1]/", "https://[64:ff9b:1::7f00:1]/",
    "https://[2002:7f00:1::]/", "https://[2001:0:7f00:1::]/", "https://[fe80::1]/", "https://[fe80::1%25eth0]/",
    "https://[fec0::1]/", "https://[fd00::1]/", "https://[ff02::1]/", "https://[2001:db8::1]/", "https://[100::1]/",
    "https://localhost/", "https://a.localhost./", "https://db/", "https://metadata.google.internal/",
    "https://printer.local/", "https://host.example:22/", "https://host.example:0/", "https://host.example:65536/",
    "https://host.example\\@127.0.0.1/", "https://host.example/#there", "https:///x", "https://", "host.example",
    "//host.example", "ftp://host.example/", "file:///etc/passwd", "http://host.example/", "https://host.example/a b",
    "https://ho\tst.example/", "https://\uff11\uff12\uff17.0.0.1/", "https://host.example/\u00e9",
    "https://host.example/" + "x" * 2048, "", "https://192.0.0.192/opc/v1/instance/", "https://192.0.0.8/",
    "https://168.63.129.16/", "https://192.31.196.1/", "https://192.52.193.1/", "https://192.175.48.1/",
    "https://[2620:4f:8000::1]/", "https://[fd00:ec2::254]/", "https://[::ffff:168.63.129.16]/", "https://[5f00::1]/",
    "https://xn--localhost/", "https://xn--a.example/", "https://100.100.100.200/",
]  # fmt: skip


@pytest.mark.parametrize("url", REFUSED, ids=range(len(REFUSED)))
def test_a_url_that_gives_itself_away_is_refused(url: str) -> None:
    """With a reason in words."""
    with pytest.raises(RefusedAddressError, match=r"^\w.* "):
        AddressRules(WebhookSettings()).check_url(url)


@pytest.mark.parametrize(
    ("url", "setting"),
    [
        ("http://hooks.example/", "allow_http"),
        ("https://127.0.0.1/", "allow_private"),
        ("https://10.0.0.1/", "allow_private"),
        ("https://localhost/", "allow_private"),
        ("https://169.254.169.254/", "allow_networks"),
    ],
)
def test_a_refusal_names_the_setting_that_would_take_it(url: str, setting: str) -> None:
    """For whoever tries it on his own machine."""
    with pytest.raises(RefusedAddressError, match=rf"\[webhooks\] {setting} "):
        AddressRules(WebhookSettings()).check_url(url)


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://hooks.example/x?token=1", "https://hooks.example:443"),
        ("https://Hooks.Example.:8443/", "https://hooks.example:8443"),
        ("https://168.63.129.17/", "https://168.63.129.17:443"),
        ("https://8.8.8.8/", "https://8.8.8.8:443"),
        ("https://[2606:4700::1111]:8443/", "https://[2606:4700::1111]:8443"),
        ("https://[64:ff9b::808:808]/", "https://[64:ff9b::808:808]:443"),
        ("https://xn--bcher-kva.example/", "https://xn--bcher-kva.example:443"),
    ],
)
def test_public_ones_are_taken(url: str, origin: str) -> None:
    """With the origin that their deliveries are held back by."""
    assert AddressRules(WebhookSettings()).check_url(url).origin == origin


def test_the_settings_open_what_they_name() -> None:
    """Private networks don't include the link-local addresses of clouds; a network that is named is open."""
    private = AddressRules(WebhookSettings(allow_private=True, allow_http=True))
    for url in ("http://127.0.0.1:8080/", "http://localhost/", "https://10.1.2.3/", "https://[fd00::1]/", "http://db/"):
        private.check_url(url)
    for url in ("http://169.254.169.254/", "http://0.0.0.0/", "https://224.0.0.1/", "https://[fe80::1]/"):
        with pytest.raises(RefusedAddressError):
            private.check_url(url)
    named = AddressRules(WebhookSettings(allow_networks=("10.0.0.0/8", "169.254.1.1", "fd00::/8")))
    for url in ("https://10.1.2.3/", "https://169.254.1.1/", "https://[fd00::1]/", "https://[::ffff:10.0.0.1]/"):
        named.check_url(url)
    named.check_url("https://hooks.internal/")  # its addresses are looked at when it is connected to
    with pytest.raises(RefusedAddressError):
        named.check_url("https://192.168.0.1/")
    with pytest.raises(ValueError, match="allow_networks"):
        WebhookSettings(allow_networks=("10.0.0.1/8",))


class Names:
    """A name server that the test controls: each question gets the next answer, the last one for ever."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str, _port: int) -> Sequence[Address]:
        """The next answer."""
        self.asked.append(host)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [ip_address(text) for text in answer]


@pytest.mark.parametrize(
    "addresses",
    [["127.0.0.1"], ["93.184.215.14", "127.0.0.1"], ["::ffff:127.0.0.1"], ["169.254.169.254"], ["fe80::1%1"], ["::1"]],
)
async def test_a_name_that_points_inside_is_refused_at_the_connection(hook: Receiver, addresses: list[str]) -> None:
    """If only one of its addresses does; nothing is sent."""
    names = Names(addresses)
    sender = Sender(WebhookSettings(allow_http=True), names)
    port = httpx.URL(hook.url).port
    with pytest.raises(SendError, match="refused: "):
        await sender.post(f"http://rebinding.example:{port}/", {}, b"{}")
    await sender.close()
    assert (names.asked, hook.received) == (["rebinding.example"], [])


async def test_the_address_that_was_looked_at_is_the_one_connected_to(hook: Receiver) -> None:
    """The name is asked for once a try: a second answer is never seen. Host stays the name."""
    names = Names(["127.0.0.1"], ["127.0.0.2"])
    sender = Sender(WebhookSettings(allow_http=True, allow_networks=("127.0.0.1",)), names)
    port = httpx.URL(hook.url).port
    assert (await sender.post(f"http://rebinding.example:{port}/x", {"X-A": "b"}, b"{}")).status == 204
    assert names.asked == ["rebinding.example"]
    [received] = hook.received
    assert (received.headers["host"], received.headers["x-a"]) == (f"rebinding.example:{port}", "b")
    with pytest.raises(SendError, match="refused: "):
        await sender.post(f"http://rebinding.example:{port}/x", {}, b"{}")
    assert len(hook.received) == 1
    await sender.close()


@contextmanager
def black_hole(port: int) -> Iterator[str]:
    """The address of a listener whose backlog is full: whoever connects hears nothing."""
    with ExitStack() as stack:
        hole = stack.enter_context(socket.socket())
        hole.bind(("127.0.0.9", port))
        hole.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.9", port))
        yield "127.0.0.9"


async def test_an_address_that_is_dead_leaves_time_for_the_next(hook: Receiver) -> None:
    """All of them dead, it is told how long was waited for a connection."""
    settings = WebhookSettings(allow_http=True, allow_private=True, timeout_s=0.6)
    port = httpx.URL(hook.url).port
    assert port is not None
    with black_hole(port) as dead:
        sender = Sender(settings, Names([dead, "127.0.0.1"]))
        assert (await sender.post(f"http://dual.example:{port}/", {}, b"{}")).status == 204
        slower = Sender(msgspec.structs.replace(settings, timeout_s=20.0), Names([dead]))
        slower._connect_s = 0.1
        with pytest.raises(SendError, match=r"^no connection within 0\.1 s$"):
            await slower.post(f"http://dual.example:{port}/", {}, b"{}")
        for each in (sender, slower):
            await each.close()


def test_both_families_have_their_turn() -> None:
    """A receiver with many addresses of a dead family is reached by the other one; only some are tried."""
    addresses = [ip_address(text) for text in ("2600::1", "2600::2", "2600::3", "2600::4", "9.9.9.1", "9.9.9.2")]
    assert [str(address) for address in _in_turn(addresses)] == ["2600::1", "9.9.9.1", "2600::2", "9.9.9.2"]
    assert _in_turn([]) == []


async def test_names_that_nobody_has_are_no_answer() -> None:
    """By the system's own resolver: one that can't be written in DNS, and one that leads nowhere."""
    sender = Sender(WebhookSettings())
    for host in ("a" * 64 + ".example", "nowhere.invalid"):
        with pytest.raises(SendError, match="no answer"):
            await sender.post(f"https://{host}/", {}, b"{}")
    await sender.close()


async def test_tls_goes_by_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The certificate is the name's, whatever address was looked at; another name's, or a stranger's, is refused."""
    with receiver(certificate=certificate(tmp_path, "hooks.example")) as here:
        port = httpx.URL(here.url).port
        settings = WebhookSettings(allow_networks=("127.0.0.1",))
        stranger = Sender(settings, Names(["127.0.0.1"]))
        with pytest.raises(SendError, match="certificate verify failed"):
            await stranger.post(f"https://hooks.example:{port}/", {}, b"{}")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
        known = Sender(settings, Names(["127.0.0.1"]))
        assert (await known.post(f"https://hooks.example:{port}/", {}, b"{}")).status == 204
        with pytest.raises(SendError, match="certificate verify failed"):
            await known.post(f"https://other.example:{port}/", {}, b"{}")
        for sender in (stranger, known):
            await sender.close()
        assert len(here.received) == 1


async def test_no_proxy_of_the_environment_is_asked(hook: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy would resolve names by itself."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, hook.url)
    sender = Sender(WebhookSettings(allow_http=True, allow_private=True), Names([]))
    with pytest.raises(SendError, match="no answer"):
        await sender.post("http://nowhere.example/", {}, b"{}")
    await sender.close()
    assert hook.received == []
