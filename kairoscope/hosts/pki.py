"""A private certificate authority in a folder: made once, issues a certificate for each host.

    issuer.pem          key and certificate of the CA that issues
    next.pem            the same of the CA that is about to take its place (`trust_next_ca`)
    ca.crt              certificates that are trusted; during a change of the CA both
    <name>/node.key     private key (PKCS #8)
    <name>/node.crt     certificate, for both sides of a connection
    <name>/node.pem     both in one file, as Cassandra wants them
    _control/…          the same for this machine

A folder <name> is replaced as a whole, so that a key never stands beside another's certificate.
"""

import contextlib
import ipaddress
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kairoscope import whole
from kairoscope.errors import UserError

CONTROL = "_control"
"""Folder of this machine's own certificate; no host can have this name."""
ISSUER, NEXT = "issuer.pem", "next.pem"

ISSUED_FOR = timedelta(days=730)
# Beyond the life of what it signs; a new one takes its place by `trust_next_ca`.
CA_FOR = timedelta(days=3650)
# A host's clock may be behind ours by so much.
_BACKDATED = timedelta(hours=1)
# How long ago the time of a certificate is over that is `expired`.
EXPIRED_FOR = timedelta(hours=1)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


@dataclass(frozen=True)
class _Pair:
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def read(cls, path: Path) -> "_Pair":
        data = path.read_bytes()
        key = serialization.load_pem_private_key(data, None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return cls(key, x509.load_pem_x509_certificate(data))

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),  # it lies in a file that only its user can read
        )

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    whole.write(path, content, 0o600)


def create(folder: Path, name: str) -> None:
    """Make the CA of a target called `name`, in an empty folder."""
    ca = _new_ca(name)
    write_private(folder / ISSUER, ca.key_pem + ca.certificate_pem)
    write_private(folder / "ca.crt", ca.certificate_pem)


def issue(folder: Path, hosts: Mapping[str, list[str]]) -> list[str]:
    """Issue what is missing: for each host, its name to its addresses, and for this machine.

    Addresses are IP addresses or names of the DNS. A host that has others than in its certificate
    gets a new one; nothing else is touched, so a second call changes nothing.

    Returns:
        The names that got a certificate.

    Raises:
        UserError: a host's name cannot be that of a certificate.
    """
    for name in hosts:
        if not _NAME.fullmatch(name):
            raise UserError(
                f"Host {name!r}: letters, digits, dots, dashes and underscores only, at most 63, "
                "as its certificate bears its name. Rename it in the inventory."
            )
    wanted: dict[str, list[str]] = {CONTROL: [], **hosts}
    issuer = _Pair.read(folder / ISSUER)
    missing = [
        name
        for name, addresses in wanted.items()
        if _issued_for(folder / name) != _names(name, addresses)
    ]
    for name in missing:
        _issue(folder, issuer, name, wanted[name])
    return missing


def trusted(folder: Path) -> bytes:
    """The certificates that are trusted, PEM."""
    return (folder / "ca.crt").read_bytes()


def ends(folder: Path) -> dict[str, float]:
    """When each certificate ends (epoch s), by the host's name; "CA" is the issuing CA's."""
    found = {
        path.parent.name: x509.load_pem_x509_certificate(path.read_bytes())
        for path in sorted(folder.glob("[!.]*/node.crt"))
    }
    found["CA"] = _Pair.read(folder / ISSUER).certificate
    return {name: found[name].not_valid_after_utc.timestamp() for name in found}


def reissue(folder: Path) -> list[str]:
    """Issue every certificate anew, from the next CA if there is one; the names.

    What is in use stays valid: hosts may get theirs one after another.
    """
    if (folder / NEXT).exists():
        (folder / NEXT).replace(folder / ISSUER)
    issuer = _Pair.read(folder / ISSUER)
    names = sorted(path.parent.name for path in folder.glob("[!.]*/node.crt"))
    for name in names:
        _, *addresses = _issued_for(folder / name) or [name]
        _issue(folder, issuer, name, addresses)
    return names


def trust_next_ca(folder: Path, name: str) -> None:
    """Begin a change of the CA: make the next one, and trust both from now on.

    Does nothing if it was begun already. Hosts must have both before `reissue`.
    """
    if not (folder / NEXT).exists():
        ca = _new_ca(name)
        write_private(folder / NEXT, ca.key_pem + ca.certificate_pem)
    both = (_Pair.read(folder / name) for name in (ISSUER, NEXT))
    write_private(folder / "ca.crt", b"".join(pair.certificate_pem for pair in both))


def trust_only_issuer(folder: Path) -> None:
    """End a change of the CA: trust no other than the one that issues.

    Raises:
        UserError: a certificate is of another CA still.
    """
    issuer = _Pair.read(folder / ISSUER).certificate
    for path in sorted(folder.glob("[!.]*/node.crt")):
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        try:
            certificate.verify_directly_issued_by(issuer)
        except Exception as error:  # ValueError or InvalidSignature: not of this CA either way
            raise UserError(
                f"{path}: of another CA than the one that issues now; first issue all anew"
            ) from error
    write_private(folder / "ca.crt", issuer.public_bytes(serialization.Encoding.PEM))


def _new_ca(name: str) -> _Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    # With the time in it, the CAs of a change have different names.
    subject = _name(f"Kairoscope CA {name[:30]} {now:%Y-%m-%d %H:%M:%S}")
    builder = (
        _builder(subject, subject, key, now + CA_FOR)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(ca=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return _Pair(key, builder.sign(key, hashes.SHA256()))


def expired(folder: Path, name: str) -> dict[str, str]:
    """Two of a host's files, as `issue` writes them, but for the time: that was over an hour ago.

    Key, names and CA are those of its certificate. Nothing is written.
    """
    issuer, pair = _Pair.read(folder / ISSUER), _Pair.read(folder / name / "node.pem")
    _, *addresses = _issued_for(folder / name) or [name]
    now = datetime.now(UTC)
    made = _certificate(issuer, pair.key, name, addresses, now - EXPIRED_FOR, 2 * EXPIRED_FOR)
    return {
        "node.crt": made.certificate_pem.decode(),
        "node.pem": (made.key_pem + made.certificate_pem).decode(),
    }


def _issue(folder: Path, issuer: _Pair, name: str, addresses: list[str]) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    until = min(datetime.now(UTC) + ISSUED_FOR, issuer.certificate.not_valid_after_utc)
    made = _certificate(issuer, key, name, addresses, until)
    with replaced(folder / name) as partial:
        write_private(partial / "node.key", made.key_pem)
        write_private(partial / "node.crt", made.certificate_pem)
        write_private(partial / "node.pem", made.key_pem + made.certificate_pem)


def _certificate(
    issuer: _Pair,
    key: ec.EllipticCurvePrivateKey,
    name: str,
    addresses: list[str],
    until: datetime,
    backdated: timedelta = _BACKDATED,
) -> _Pair:
    own, *others = _names(name, addresses)
    san: list[x509.GeneralName] = [x509.DNSName(own)]
    for other in others:
        ip = _ip(other)
        san.append(x509.IPAddress(ip) if ip else x509.DNSName(other))
    both_sides = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.key.public_key())
    builder = (
        _builder(_name(name.strip("_")), issuer.certificate.subject, key, until, backdated)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(ca=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(both_sides), critical=False)
        .add_extension(x509.SubjectAlternativeName(san), critical=False)
        .add_extension(authority, critical=False)
    )
    return _Pair(key, builder.sign(issuer.key, hashes.SHA256()))


@contextlib.contextmanager
def replaced(folder: Path) -> Iterator[Path]:
    """A new folder, mode 700, to be filled; it takes the place of the old one at the end.

    An interruption leaves the old one, or none: never a mixture.
    """
    partial = folder.with_name(f".{folder.name}.partial")
    old = folder.with_name(f".{folder.name}.old")
    for left in (partial, old):
        shutil.rmtree(left, ignore_errors=True)
    partial.mkdir(mode=0o700)
    try:
        yield partial
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    with contextlib.suppress(FileNotFoundError):
        folder.rename(old)
    partial.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def _issued_for(folder: Path) -> list[str] | None:
    """Name and addresses in a certificate, None if there is no whole one."""
    if not all((folder / file).exists() for file in ("node.key", "node.crt", "node.pem")):
        return None
    certificate = x509.load_pem_x509_certificate((folder / "node.crt").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(name.value) for name in names]


def _names(name: str, addresses: list[str]) -> list[str]:
    """What `_issued_for` gives for the certificate that a host should have."""
    own = name.strip("_")
    texts = [str(_ip(address) or address) for address in addresses]
    return [own, *dict.fromkeys(text for text in texts if _ip(text) or text != own)]


def _ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    until: datetime,
    backdated: timedelta = _BACKDATED,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - backdated)
        .not_valid_after(until)
    )


def _key_usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=ca,
        crl_sign=ca,
        encipher_only=False,
        decipher_only=False,
    )
