"""Every way in which MAAS can be hard to talk to, over real sockets."""

from __future__ import annotations

import asyncio
import gc
import logging
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web
from maas_lab import BMC_PASSWORD, LabClock, mac, node_at, spec_of
from maas_region import CONSUMER, KEY, SECRET, TOKEN, Fault, Region

from provision.adapters.maas import MaasRegion
from provision.adapters.maas.answers import Answer, error_of
from provision.errors import (
    CredentialRefusedError,
    GarbledError,
    MisconfiguredError,
    PeerError,
    RefusedError,
    UnavailableError,
)
from provision.model.machine import DeploySpec
from provision.model.secret import Secret

Make = Callable[..., MaasRegion]
NODE = node_at(3)


def everything_about(error: BaseException) -> str:
    """All that a log, a debugger or a careless ``repr`` could show of an error and its chain."""
    shown, todo, seen = "", [error], set[int]()
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        shown += f"{one} {one!r} {one.args!r} {getattr(one, '__dict__', '')!r}"
        todo += [linked for linked in (one.__cause__, one.__context__) if linked is not None]
    return shown


async def failing(client: MaasRegion) -> PeerError:
    with pytest.raises(PeerError) as caught:
        await client.fresh(NODE, [mac(3)])
    return caught.value


async def test_a_wrong_secret_is_named_and_the_true_one_never_shown(
    client: Make, clock: LabClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    maas = client(key=f"{CONSUMER}:{TOKEN}:wr0ngS3cret")
    error = await failing(maas)
    assert isinstance(error, CredentialRefusedError)
    assert "third part" in str(error)
    shown = everything_about(error) + caplog.text + repr(vars(maas)) + repr(vars(maas._transport))
    assert SECRET not in shown
    assert "wr0ngS3cret" not in shown


@pytest.mark.parametrize("key", [f"other:{TOKEN}:{SECRET}", f"{CONSUMER}:other:{SECRET}"])
async def test_an_unknown_key_is_refused_once(client: Make, region: Region, key: str) -> None:
    error = await failing(client(key=key))
    assert isinstance(error, CredentialRefusedError)
    assert "does not know this API key" in str(error)
    assert len(region.lists()) == 1
    assert SECRET not in everything_about(error)


async def test_an_expired_timestamp_is_a_clock_that_is_behind(client: Make, clock: LabClock) -> None:
    clock.wrong_by_s = -400
    error = await failing(client())
    assert isinstance(error, RefusedError)
    assert not isinstance(error, CredentialRefusedError)
    assert error.code == "clock-skew"
    assert "is behind by" in str(error)
    assert any(f" {seconds} s " in str(error) for seconds in (399, 400, 401))


@pytest.mark.parametrize(("skew_s", "way"), [(4000.0, "is behind by 4000 s"), (-4000.0, "is ahead by 4000 s")])
def test_a_401_without_a_reason_is_the_clock_when_the_clocks_differ(skew_s: float, way: str) -> None:
    error = error_of("MAAS", "list", Answer(401, "text/plain", b"Unauthorized", {}, skew_s), write=False)
    assert error.code == "clock-skew"
    assert way in str(error)
    known = error_of("MAAS", "list", Answer(401, "text/plain", b"Invalid API key.", {}, skew_s), write=False)
    assert isinstance(known, CredentialRefusedError)


async def test_a_write_that_found_no_connection_was_not_done(client: Make, region: Region) -> None:
    system_id = region.add(NODE.name, [], status=10)
    maas = client([NODE])
    await maas.fresh(NODE, [])
    assert region.stop is not None
    await region.stop()
    with pytest.raises(UnavailableError):
        await maas.release(system_id, "the kept connection breaks")
    with pytest.raises(UnavailableError, match="cannot connect") as caught:
        await maas.release(system_id, "x")
    assert "look before asking again" not in str(caught.value)


async def test_a_nonce_seen_before_is_asked_again_with_another(client: Make, region: Region) -> None:
    said = "Authorization Error: 'Nonce already used: abc'"
    region.faults.append(Fault("GET machines/", lambda: web.Response(status=401, text=said, content_type="text/html")))
    assert await client().fresh(NODE, [mac(3)]) is None


async def test_reads_are_repeated_and_obey_retry_after(client: Make, region: Region, clock: LabClock) -> None:
    def busy() -> web.Response:
        return web.Response(status=503, text="busy", headers={"Retry-After": "7"})

    region.faults.append(Fault("GET machines/", busy, times=2))
    assert await client().fresh(NODE, []) is None
    assert clock.slept == [7.0, 7.0]


async def test_a_retry_after_beyond_patience_is_handed_on(client: Make, region: Region, clock: LabClock) -> None:
    region.faults.append(Fault("GET machines/", lambda: web.Response(status=503, headers={"Retry-After": "120"})))
    error = await failing(client())
    assert isinstance(error, UnavailableError)
    assert error.retry_after_s == 120
    assert clock.slept == []


async def test_reads_end_after_four_tries(client: Make, region: Region) -> None:
    region.faults.append(Fault("GET machines/", lambda: web.Response(status=502), times=99))
    assert isinstance(await failing(client()), UnavailableError)
    assert len(region.lists()) == 4


@pytest.mark.parametrize(
    "fault",
    [
        Fault("POST machines/", lambda: web.Response(status=503, text="No rack controllers can access"), after=True),
        Fault("POST machines/", lambda: web.Response(status=504, text="<html>", content_type="text/html"), after=True),
        Fault("POST machines/", lambda: web.Response(status=500, text="oops"), after=True),
        Fault("POST machines/", lambda: web.Response(text="<html>", content_type="text/html"), after=True),
        Fault("POST machines/", lambda: web.Response(text="{nope", content_type="application/json"), after=True),
        Fault("POST machines/", cut=True, after=True),
        Fault("POST machines/", hang=True, after=True),
    ],
    ids=["503", "504", "500", "web-page", "broken-json", "cut", "silent"],
)
async def test_a_write_without_a_good_answer_is_unknown_and_sent_once(
    client: Make, region: Region, fault: Fault
) -> None:
    fault.times = 1
    region.faults.append(fault)
    maas = client([NODE], deadline_s=0.5)
    with pytest.raises(UnavailableError, match="look before asking again") as caught:
        await maas.create(spec_of(NODE, mac(3)))
    assert BMC_PASSWORD not in everything_about(caught.value)
    assert region.writes() == ["POST machines/"]
    found = await maas.machine(NODE, [mac(3)])
    assert found is not None
    assert found.hostname == NODE.name


async def test_the_two_kinds_of_conflict(client: Make, region: Region) -> None:
    system_id = region.add(NODE.name, [mac(3).text])
    maas = client([NODE])
    with pytest.raises(RefusedError, match="in this state") as state:
        await maas.deploy(system_id, DeploySpec("jammy", None, Secret("#cloud-config\n")))
    assert state.value.code == "409"
    region.faults.append(Fault(".* release", lambda: web.Response(status=409, headers={"Retry-After": "5"})))
    with pytest.raises(UnavailableError) as serial:
        await maas.release(system_id, "x")
    assert serial.value.retry_after_s == 5
    assert region.writes().count(f"POST machines/{system_id}/ release") == 1


async def test_an_empty_403_is_explained(client: Make, region: Region) -> None:
    system_id = region.add(NODE.name, [mac(3).text], status=6, locked=True)
    maas = client([NODE])
    with pytest.raises(RefusedError, match="not an administrator's"):
        await maas.release(system_id, "x")
    await maas.fresh(NODE, [mac(3)])
    with pytest.raises(RefusedError, match="locked in MAAS") as caught:
        await maas.release(system_id, "x")
    assert caught.value.code == "locked"
    assert NODE.name in str(caught.value)


async def test_form_complaints_become_a_sentence(client: Make, region: Region) -> None:
    system_id = region.add(NODE.name, [mac(3).text], status=4)
    body = {"distro_series": ["'x' is not a valid distro_series."], "__all__": ["Not now.", "Really."]}
    region.faults.append(Fault(".* deploy", lambda: web.json_response(body, status=400)))
    with pytest.raises(RefusedError) as caught:
        await client().deploy(system_id, DeploySpec("x", None, Secret("#cloud-config\n")))
    assert caught.value.detail == "distro_series: 'x' is not a valid distro_series.; Not now. Really."


async def test_what_maas_quotes_back_holds_no_password(client: Make, region: Region) -> None:
    body = {"power_parameters": [f"'{BMC_PASSWORD}' is too simple"]}
    region.faults.append(Fault("POST machines/", lambda: web.json_response(body, status=400)))
    with pytest.raises(RefusedError, match="too simple") as caught:
        await client().create(spec_of(NODE, mac(3)))
    assert BMC_PASSWORD not in everything_about(caught.value)


async def test_no_body_is_ever_multipart_or_empty_multipart(client: Make, region: Region) -> None:
    system_id = region.add(NODE.name, [mac(3).text], status=1)
    await client().abort(system_id, "")
    abort = region.calls[-1]
    assert abort.headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert abort.form == []


async def test_the_sites_url_is_kept_and_its_connection_too(client: Make, region: Region) -> None:
    assert "10.99.0.1" in region.host
    maas = client([NODE])
    for _ in range(5):
        await maas.fresh(NODE, [])
    assert len(region.lists()) == 5
    assert len(region.connections) == 1


async def test_behind_a_proxy_path_the_prefix_is_kept(client: Make, region: Region) -> None:
    maas = client([NODE], url=f"http://127.0.0.1:{region.port}/dc1/region/MAAS/")
    assert await maas.fresh(NODE, []) is None


async def test_a_redirect_is_named_and_not_followed(client: Make, region: Region) -> None:
    where = {"Location": "https://user:pw@maas.example/MAAS/?x=1"}
    region.faults.append(Fault("GET describe/", lambda: web.Response(status=301, headers=where)))
    error = await failing(client())
    assert isinstance(error, RefusedError)
    assert "https://maas.example/MAAS/" in str(error)
    assert "pw@" not in str(error)


async def test_something_that_is_no_maas(client: Make, region: Region) -> None:
    region.faults.append(Fault("GET describe/", lambda: web.json_response({"resources": [{}]})))
    error = await failing(client())
    assert isinstance(error, GarbledError)
    region.faults.append(Fault("GET machines/", lambda: web.Response(text="<html>hello", content_type="text/html")))
    assert isinstance(await failing(client()), GarbledError)
    region.faults.append(Fault("GET machines/", lambda: web.json_response([{"hostname": "x"}])))
    assert "system_id" in str(await failing(client()))
    region.faults.append(Fault("GET machines/", lambda: web.json_response("what")))
    assert isinstance(await failing(client()), GarbledError)


async def test_a_server_that_speaks_no_http(client: Make, clock: LabClock) -> None:
    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"220 mail.example ESMTP\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(babble, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    error = await failing(client(url=f"http://127.0.0.1:{port}/MAAS"))
    server.close()
    assert isinstance(error, GarbledError)
    assert SECRET not in everything_about(error)


async def test_maas_that_is_down_or_silent(client: Make, region: Region) -> None:
    error = await failing(client(url="http://127.0.0.1:1/MAAS"))
    assert isinstance(error, UnavailableError)
    assert "cannot connect" in str(error)
    region.faults.append(Fault("GET machines/", hang=True, times=9))
    error = await failing(client(deadline_s=0.1))
    assert "no answer in 0.1 s" in str(error)
    assert SECRET not in everything_about(error)


async def test_the_environments_proxy_is_not_asked(
    client: Make, region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert await client().fresh(NODE, []) is None
    error = await failing(client(proxy="http://127.0.0.1:1"))
    assert error.code in {"proxy", "connect"}


async def test_a_certificate_must_be_of_the_sites_ca(client: Make, region: Region, tmp_path: Path) -> None:
    ca, context = _certificate(tmp_path)
    runner = web.AppRunner(region.app())
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    url = f"https://127.0.0.1:{runner.addresses[0][1]}/MAAS"
    assert await client(url=url, ca_file=str(ca)).fresh(NODE, []) is None
    error = await failing(client(url=url))
    assert isinstance(error, RefusedError)
    assert error.code == "tls"
    error = await failing(client(url=url.replace(str(runner.addresses[0][1]), str(region.port))))
    assert error.code == "tls"
    await runner.cleanup()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"url": "maas.example"}, "expected http"),
        ({"url": "ftp://maas.example/"}, "expected http"),
        ({"url": "http://maas:99999/"}, "expected http"),
        ({"url": "http://me:hidden@maas/MAAS"}, "no user"),
        ({"url": "http://maas/MAAS/api/1.0/"}, "version 2.0"),
        ({"key": "only:two"}, "three parts"),
        ({"key": "a:b:c d"}, "three parts"),
        ({"key": "a:b:c\nd"}, "three parts"),
        ({"url": "https://maas/", "ca_file": "/nowhere.pem"}, "No such file"),
        ({"proxy": "socks://x"}, "expected http://host:port"),
    ],
)
async def test_bad_settings_are_named_before_anything_is_sent(client: Make, more: dict[str, str], said: str) -> None:
    with pytest.raises(MisconfiguredError, match=said) as caught:
        client(**more)
    assert "hidden" not in str(caught.value)
    assert "c d" not in str(caught.value)


async def test_nothing_is_left_open(client: Make, region: Region, recwarn: pytest.WarningsRecorder) -> None:
    maas = client(key=KEY)
    await maas.fresh(NODE, [])
    await maas.close()
    await maas.close()
    gc.collect()
    assert [str(one.message) for one in recwarn if issubclass(one.category, ResourceWarning)] == []


def _certificate(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """A certificate for 127.0.0.1 that is its own authority."""
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "site CA")])
    day = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(day - timedelta(days=1))
        .not_valid_after(day + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    ca, private = folder / "ca.pem", folder / "key.pem"
    ca.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ca, private)
    return ca, context
