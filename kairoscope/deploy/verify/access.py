"""Checks of who is let in: certificates, TLS, passwords."""

import time
import urllib.error
import urllib.request
from collections.abc import Iterable

from kairoscope.deploy.verify import answers, probe, wire
from kairoscope.deploy.verify.check import of_each
from kairoscope.deploy.verify.context import REQUEST_S, Context, on_host
from kairoscope.deploy.verify.finding import Finding
from kairoscope.hosts import direct, secret_files
from kairoscope.hosts.inventory import Host


def certificates(context: Context, check: str) -> Iterable[Finding]:
    """Servers show certificates of our CA, in their name, that last."""
    wanted = f"its name and address, {answers.CERTIFICATE_DAYS} days or more"

    def look(host: Host) -> tuple[str, bool]:
        shown = wire.certificate(context.client.ways.endpoint(host), context.access.tls)
        problems = answers.certificate_problems(shown, host, time.time())
        days = (shown.expires - time.time()) / 86_400
        return ", ".join(problems) or f"{days:,.0f} days left", not problems

    yield from of_each(check, [*context.storage, *context.kairosdb], wanted, look)
    ends = secret_files.ends(context.access.folder)
    for name in ("CA", "_control"):
        days = (ends[name] - time.time()) / 86_400
        well = days >= answers.CERTIFICATE_DAYS
        where = "the CA" if name == "CA" else "this machine"
        yield Finding.of(check, where, f"{days:,.0f} days left", "30 days or more", well)


def cql_tls(context: Context, check: str) -> Iterable[Finding]:
    """CQL is for those with a certificate of ours: not plain, not over TLS without one."""

    def look(host: Host) -> tuple[str, bool]:
        endpoint = context.client.ways.endpoint(host)
        plain, _ = _say(endpoint, wire.CQL_OPTIONS)
        stranger, _ = _say(endpoint, wire.CQL_OPTIONS, anonymous=True)
        _, ours = probe.say(*endpoint, wire.CQL_OPTIONS, context.access.tls)
        problems = [
            *(["plain let in"] if plain == probe.OPEN else []),
            *(["let in without a certificate"] if stranger == probe.OPEN else []),
            *([] if ours else ["no answer with our certificate"]),
        ]
        return ", ".join(problems) or "with a certificate only", not problems

    return of_each(check, context.storage, "with a certificate only", look)


def _say(
    endpoint: tuple[str, int], message: bytes, *, anonymous: bool = False
) -> tuple[str, bytes]:
    """Say something plain, or over TLS without a certificate."""
    return probe.say(*endpoint, message, probe.anonymous() if anonymous else None)


def internode_tls(context: Context, check: str) -> Iterable[Finding]:
    """The port between storage nodes likewise, seen from another of them."""

    def look(host: Host) -> tuple[str, bool]:
        others = [other for other in context.storage if other is not host]
        source = others[0] if others else host
        port = answers.internode_port(host)
        hows = on_host(
            source,
            "say_all",
            [
                [host.address, port, wire.INTERNODE_PLAIN.hex(), False],
                [host.address, port, wire.INTERNODE_PLAIN.hex(), True],
            ],
        )
        found = [
            f"{how} {kind}"
            for how, kind in zip(hows, ("plain", "without a certificate"), strict=True)
        ]
        return ", ".join(found), hows == [probe.CLOSED, probe.CLOSED]

    return of_each(check, context.storage, "closed plain, closed without a certificate", look)


def default_superuser(context: Context, check: str) -> Iterable[Finding]:
    """The superuser that every fresh cluster has, with its known password, is refused."""

    def look(host: Host) -> tuple[str, bool]:
        endpoint = context.client.ways.endpoint(host)
        found = wire.cql_login(endpoint, context.access.tls, "cassandra", "cassandra")
        return found, found == wire.LOGIN_REFUSED

    return of_each(check, context.storage, wire.LOGIN_REFUSED, look)


def plain_http(context: Context, check: str) -> Iterable[Finding]:
    """KairosDB does not answer over plain HTTP."""

    def look(host: Host) -> tuple[str, bool]:
        how, answer = _say(context.client.ways.endpoint(host), wire.HTTP_PLAIN)
        well = answers.http_refused(how, answer)
        return ("refused" if well else f"{how} {answer[:40].decode(errors='replace')!r}"), well

    return of_each(check, context.kairosdb, "refused", look)


def rest_login(context: Context, check: str) -> Iterable[Finding]:
    """KairosDB's REST interface asks for a password, and for the right one."""
    logins = {"without": {}, "wrong": {"Authorization": "Basic a2Fpcm9zY29wZTp3cm9uZw=="}}

    def look(host: Host) -> tuple[str, bool]:
        found = {name: _status(context, host, headers) for name, headers in logins.items()}
        texts = [f"{status} {name}" for name, status in found.items()]
        return ", ".join(texts), set(found.values()) == {401}

    if not context.hosts.kairosdb[0].vars.get("rest_auth", True):
        return [Finding.skipped(check, "rest_auth is off in the inventory")]
    return of_each(check, context.kairosdb, "401 without, 401 wrong", look)


def _status(context: Context, host: Host, headers: dict[str, str]) -> int:
    url = f"{context.client.url(host)}/api/v1/metricnames"
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 (our own servers)
    try:
        with direct.answer(request, REQUEST_S, context.client.tls) as got:
            return got.status
    except urllib.error.HTTPError as error:
        return error.code
