"""A target's secrets: made once, closed to others, told to nobody, rotated step by step."""

import re
import shutil
import ssl
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from kairoscope import experiment
from kairoscope.cli import known
from kairoscope.deploy import deploy, preflight
from kairoscope.deploy.deploy import Deployment
from kairoscope.errors import UserError
from kairoscope.hosts import inventory, pki, secret_files, ssh
from kairoscope.targets.target import Options, Target

HOSTS = {"storage-1": ["10.77.0.11"], "kairosdb-1": ["10.77.0.21"]}


@pytest.fixture(autouse=True)
def parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of secrets of the test's own."""
    monkeypatch.setenv("KAIROSCOPE_SECRETS", str(tmp_path / "secrets"))
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path / "home"))
    return tmp_path / "secrets"


def certificate(where: Path, host: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate((where / "pki" / host / "node.crt").read_bytes())


def snapshot(where: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in where.rglob("*") if path.is_file()}


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, name: str | None) -> None:
    """A whole handshake in memory; ssl.SSLError where one of the two refuses the other."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    # With TLS 1.3 a client learns only by its first read that its certificate was refused.
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    ends[1].write(b"hello")
    assert ends[0].read(5) == b"hello"


def side(where: Path, host: str, purpose: int) -> ssl.SSLContext:
    """A host's side of a connection, which wants a certificate of the other."""
    context = ssl.SSLContext(purpose)
    context.load_verify_locations(where / "pki" / "ca.crt")
    context.verify_mode = ssl.CERT_REQUIRED
    own = where / "pki" / host
    context.load_cert_chain(own / "node.pem")
    return context


def server(where: Path, host: str) -> ssl.SSLContext:
    return side(where, host, ssl.PROTOCOL_TLS_SERVER)


def test_all_is_closed_to_others():
    where = secret_files.ensure("lab", HOSTS)
    for path in [where.parent, where, *where.rglob("*")]:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path


def test_a_second_deploy_changes_nothing():
    where = secret_files.ensure("lab", HOSTS)
    before = snapshot(where)
    assert secret_files.ensure("lab", HOSTS) == where
    assert snapshot(where) == before


def test_a_new_host_gets_a_certificate_and_no_other_does():
    where = secret_files.ensure("lab", HOSTS)
    before = snapshot(where)
    secret_files.ensure("lab", HOSTS | {"kairosdb-2": ["10.77.0.22"]})
    after = snapshot(where)
    assert {path: after[path] for path in before} == before
    assert {path.parent.name for path in set(after) - set(before)} == {"kairosdb-2"}


def test_a_host_at_another_address_gets_a_new_certificate():
    where = secret_files.ensure("lab", HOSTS)
    old = {host: certificate(where, host).serial_number for host in HOSTS}
    secret_files.ensure("lab", HOSTS | {"storage-1": ["10.77.0.99"]})
    names = certificate(where, "storage-1").extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert [str(name.value) for name in names.value] == ["storage-1", "10.77.0.99"]
    assert certificate(where, "kairosdb-1").serial_number == old["kairosdb-1"]


def test_names_that_clients_know_a_host_by():
    known_as = {"kairosdb-1": ["10.77.0.21", "kairosdb.example.org"], "10.0.0.7": ["10.0.0.7"]}
    where = secret_files.ensure("lab", known_as)
    hosts_client = side(where, "10.0.0.7", ssl.PROTOCOL_TLS_CLIENT)
    for name in ("10.77.0.21", "kairosdb-1", "kairosdb.example.org"):
        handshake(server(where, "kairosdb-1"), hosts_client, name)
    handshake(server(where, "10.0.0.7"), hosts_client, "10.0.0.7")
    before = {host: certificate(where, host).serial_number for host in known_as}
    secret_files.ensure("lab", known_as)
    assert {host: certificate(where, host).serial_number for host in known_as} == before
    secret_files.rotate_certificates(where)
    handshake(server(where, "kairosdb-1"), hosts_client, "kairosdb.example.org")


def test_what_an_interruption_left_half_is_mended():
    where = secret_files.ensure("lab", HOSTS)
    (where / "pki" / "storage-1" / "node.pem").unlink()
    (where / "pki" / ".kairosdb-1.partial").mkdir()
    secret_files.ensure("lab", HOSTS)
    handshake(server(where, "storage-1"), secret_files.access(where).tls, "127.0.0.1")


def test_targets_of_two_homes_have_secrets_of_their_own(monkeypatch, tmp_path):
    one = secret_files.ensure("lab", HOSTS)
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path / "other"))
    two = secret_files.ensure("lab", HOSTS)
    assert one != two
    assert secret_files.access(one).rest.password != secret_files.access(two).rest.password
    with pytest.raises(ssl.SSLError):
        handshake(server(one, "storage-1"), secret_files.access(two).tls, "127.0.0.1")


def test_this_machine_and_hosts_trust_each_other():
    where = secret_files.ensure("lab", HOSTS)
    # Through a forward the name is not that of the host, and is not looked at.
    handshake(server(where, "storage-1"), secret_files.access(where).tls, "127.0.0.1")
    hosts_client = side(where, "kairosdb-1", ssl.PROTOCOL_TLS_CLIENT)
    for name in ("10.77.0.11", "storage-1"):
        handshake(server(where, "storage-1"), hosts_client, name)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(server(where, "storage-1"), hosts_client, "10.77.0.21")


def test_a_client_without_a_certificate_is_refused():
    where = secret_files.ensure("lab", HOSTS)
    bare = ssl.create_default_context(cadata=secret_files.access(where).ca)
    with pytest.raises(ssl.SSLError):
        handshake(server(where, "storage-1"), bare, "10.77.0.11")


def test_certificates_are_renewed_from_the_same_ca():
    where = secret_files.ensure("lab", HOSTS)
    ca, old = secret_files.access(where).ca, certificate(where, "storage-1").serial_number
    not_yet_renewed = side(where, "kairosdb-1", ssl.PROTOCOL_TLS_CLIENT)
    assert secret_files.rotate_certificates(where) == ["_control", "kairosdb-1", "storage-1"]
    assert secret_files.access(where).ca == ca
    assert certificate(where, "storage-1").serial_number != old
    handshake(server(where, "storage-1"), not_yet_renewed, "10.77.0.11")


def test_a_certificate_whose_time_is_over():
    where = secret_files.ensure("lab", HOSTS)
    before, own = snapshot(where), certificate(where, "storage-1")
    files = secret_files.certificate(where, "storage-1", expired=True)
    made = x509.load_pem_x509_certificate(files["node.crt"].encode())
    assert made.not_valid_after_utc.timestamp() < time.time()
    assert (made.public_key(), made.subject) == (own.public_key(), own.subject)
    assert snapshot(where) == before
    right = secret_files.certificate(where, "storage-1")
    assert x509.load_pem_x509_certificate(right["node.pem"].encode()) == own
    # As a host would have it; who asks learns why.
    for name, content in files.items():
        (where / "pki" / "storage-1" / name).write_text(content)
    hosts_client = side(where, "kairosdb-1", ssl.PROTOCOL_TLS_CLIENT)
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate has expired"):
        handshake(server(where, "storage-1"), hosts_client, "10.77.0.11")


def test_the_ca_is_changed_without_a_moment_at_which_hosts_refuse_each_other():
    where = secret_files.ensure("lab", HOSTS)

    def hosts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
        """Both sides as the files are now: what a host runs with until its next restart."""
        return server(where, "storage-1"), side(where, "kairosdb-1", ssl.PROTOCOL_TLS_CLIENT)

    def all_work(*states: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
        for one in states:
            for other in states:
                handshake(one[0], other[1], "10.77.0.11")

    before = hosts()
    secret_files.trust_next_ca(where, "lab")
    secret_files.trust_next_ca(where, "lab")  # again, as after an interruption
    trusting = hosts()
    all_work(before, trusting)
    secret_files.rotate_certificates(where)
    issued = hosts()
    all_work(trusting, issued)
    secret_files.trust_only_issuer(where)
    ended = hosts()
    all_work(issued, ended)
    assert secret_files.access(where).ca.count("BEGIN CERTIFICATE") == 1
    with pytest.raises(ssl.SSLError):
        handshake(ended[0], before[1], "10.77.0.11")


def test_the_old_ca_is_trusted_as_long_as_a_certificate_is_of_it():
    where = secret_files.ensure("lab", HOSTS)
    secret_files.trust_next_ca(where, "lab")
    (where / "pki" / "next.pem").replace(where / "pki" / "issuer.pem")
    with pytest.raises(UserError, match="of another CA"):
        secret_files.trust_only_issuer(where)
    assert secret_files.access(where).ca.count("BEGIN CERTIFICATE") == 2


def test_certificates_end_after_two_years_at_first():
    ends = secret_files.ends(secret_files.ensure("lab", HOSTS))
    left = {name: (end - time.time()) / 86_400 for name, end in ends.items()}
    assert set(left) == {"CA", "_control", *HOSTS}
    assert all(729 < left[name] <= 730 for name in ("_control", *HOSTS))
    assert left["CA"] > 3649


def test_roles_take_turns_and_end_where_they_began():
    where = secret_files.ensure("lab", HOSTS)
    first = secret_files.access(where)
    secret_files.rotate_roles(where)
    second = secret_files.access(where)
    assert second.retired == (first.admin, first.kairosdb)
    assert second.rest == first.rest
    assert {second.admin.user, second.kairosdb.user} == {"kairoscope_b", "kairosdb_b"}
    with pytest.raises(UserError, match="did not end"):
        secret_files.rotate_roles(where)
    assert secret_files.access(where) == second
    secret_files.forget_retired(where)
    secret_files.rotate_roles(where)
    third = secret_files.access(where)
    assert (third.admin.user, third.kairosdb.user) == (first.admin.user, first.kairosdb.user)
    passwords = {login.password for a in (first, second, third) for login in (a.admin, a.kairosdb)}
    assert len(passwords) == 6


def test_a_new_rest_password_changes_nothing_else():
    where = secret_files.ensure("lab", HOSTS)
    before = secret_files.access(where)
    secret_files.rotate_rest(where)
    after = secret_files.access(where)
    assert after.rest.password != before.rest.password
    assert (after.admin, after.kairosdb, after.ca) == (before.admin, before.kairosdb, before.ca)


def test_nothing_that_is_printed_shows_a_password():
    access = secret_files.access(secret_files.ensure("lab", HOSTS))
    for shown in (repr(access), str(access), repr(access.loader_credentials)):
        for login in (access.admin, access.kairosdb, access.rest):
            assert login.password not in shown
        assert access.authorization not in shown


@pytest.mark.parametrize(
    "content", ["rest: {password: hunter2", "[hunter2]", "rest: {password: hunter2}", "hunter2"]
)
def test_a_damaged_file_is_named_and_not_quoted(content):
    where = secret_files.ensure("lab", HOSTS)
    (where / "secrets.yml").write_text(content)
    with pytest.raises(UserError, match=r"secrets\.yml") as error:
        secret_files.access(where)
    assert "hunter2" not in error.value.message
    assert error.value.__cause__ is None


def test_a_folder_that_others_can_read_is_refused():
    where = secret_files.ensure("lab", HOSTS)
    where.chmod(0o755)
    with pytest.raises(UserError, match="chmod -R go= "):
        secret_files.ensure("lab", HOSTS)


def test_a_folder_that_cannot_be_made_is_named(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KAIROSCOPE_SECRETS", str(tmp_path / "file"))
    with pytest.raises(UserError, match="KAIROSCOPE_SECRETS"):
        secret_files.ensure("lab", HOSTS)


def test_a_folder_in_the_checkout_is_refused(monkeypatch):
    monkeypatch.setenv("KAIROSCOPE_SECRETS", str(secret_files.paths.CHECKOUT / "docs"))
    with pytest.raises(UserError, match="outside the checkout"):
        secret_files.ensure("lab", HOSTS)


def test_two_deploys_at_once_make_one_ca(parent):
    code = f"from kairoscope.hosts import secret_files; secret_files.ensure('lab', {HOSTS})"
    running = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [process.wait() for process in running] == [0, 0, 0]
    where = secret_files.ensure("lab", HOSTS)
    handshake(server(where, "storage-1"), secret_files.access(where).tls, "127.0.0.1")


def test_remove_leaves_nothing(parent):
    where = secret_files.ensure("lab", HOSTS)
    secret_files.remove(where)
    assert list(parent.iterdir()) == []
    secret_files.remove(where)


@pytest.fixture
def deployed(parent, monkeypatch, tmp_path):
    """A target that was deployed with secrets; where they are."""
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "lab").mkdir(parents=True)
    where = secret_files.ensure("lab", HOSTS)
    secret_files.remember("lab", where)
    return where


def test_a_checkout_that_moved_finds_its_secrets(deployed, monkeypatch, tmp_path):
    (tmp_path / "home").rename(tmp_path / "moved")
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path / "moved"))
    assert secret_files.ensure("lab", HOSTS) == deployed
    monkeypatch.delenv("KAIROSCOPE_SECRETS")
    assert secret_files.ensure("lab", HOSTS) == deployed


def test_no_others_are_made_for_what_is_deployed(deployed, monkeypatch, tmp_path):
    """A new CA would lock all its servers out."""
    monkeypatch.setenv("KAIROSCOPE_SECRETS", str(tmp_path / "elsewhere"))
    with pytest.raises(UserError, match=f"deployed with the secrets in {deployed}, and there is"):
        secret_files.ensure("lab", HOSTS)
    assert not (tmp_path / "elsewhere").exists()
    deployed.rename(tmp_path / "elsewhere")  # a person who has moved them, not quite right
    monkeypatch.setenv("KAIROSCOPE_SECRETS", str(deployed.parent))
    with pytest.raises(UserError, match="Bring them back"):
        secret_files.ensure("lab", HOSTS)
    (tmp_path / "elsewhere").rename(deployed)
    assert secret_files.ensure("lab", HOSTS) == deployed


class Elsewhere(Target):
    """Target aws, whose hosts another person has deployed."""

    name = "aws"

    def provision(self, *_):
        raise NotImplementedError

    def destroy(self, say):
        raise NotImplementedError


@pytest.fixture
def prepared(monkeypatch, tmp_path):
    """Prepares hosts for a deploy, in a home that the test says; `trusting` have a CA."""
    plan = known.plan(experiment.load("laptop"), "lab").model_copy(update={"target": "aws"})
    assert plan.security["enabled"]
    stack = known.stack("kairosdb")
    of = Deployment(Elsewhere(), stack, Options(tmp_path), Console(quiet=True))
    trusting: list[str] = []

    def machines(*_):
        storage = {
            name: {"address": addresses[0], "pki_host_dir": f"/x/{name}/pki"}
            for name, addresses in HOSTS.items()
        }
        data = {"all": {"vars": {"managed": True}, "children": {"storage": {"hosts": storage}}}}
        inventory.write(inventory.file("aws"), data, "for a test")

    def run(host, program, **_):
        assert program[-1] == f"/x/{host.name}/pki/ca.crt"
        return "yes\n" if host.name in trusting else "no\n"

    monkeypatch.setattr(deploy, "_machines", machines)
    monkeypatch.setattr(preflight, "check_login", lambda *_: [])
    monkeypatch.setattr(ssh, "run", run)

    def prepare(home: str) -> Path:
        monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path / home))
        deploy.prepare(plan, of)
        return secret_files.folder("aws")

    prepare.trusting = trusting
    return prepare


def test_a_second_person_brings_the_folder_as_the_refusal_says_and_goes_on(prepared, parent):
    first = prepared("first")
    prepared.trusting += ["storage-1"]
    with pytest.raises(UserError, match=r"deployed already.*: storage-1 trust") as error:
        prepared("second")
    # Nothing is there that would be in the way.
    assert [path for path in parent.iterdir() if path.is_dir()] == [first]
    assert not (parent.parent / "second" / "aws" / "secrets").exists()
    (named,) = re.findall(r"scp -rp \S+ (\S+)$", error.value.message, re.M)
    noted = (parent.parent / "first" / "aws" / "secrets").read_text().strip()
    shutil.copytree(noted, named)
    before = snapshot(Path(named))
    assert prepared("second") == Path(named) != first
    assert (
        snapshot(Path(named))
        == before
        == {Path(named) / path.relative_to(first): text for path, text in snapshot(first).items()}
    )


def test_hosts_that_were_made_and_not_deployed_to_are_anybody_s(prepared):
    """Somebody else's first deploy, interrupted before it had secrets."""
    assert prepared("first").is_dir()


def test_a_host_that_cannot_be_looked_at_is_not_taken_for_a_new_one(prepared, monkeypatch, parent):
    def away(host, *_, **__):
        raise ssh.RemoteError(f"{host.name}: ssh failed")

    monkeypatch.setattr(ssh, "run", away)
    with pytest.raises(UserError, match="Whether it is deployed already is not known"):
        prepared("first")
    assert not [path for path in parent.iterdir() if path.is_dir()]


@given(name=st.text(st.characters(codec="utf-8"), max_size=70))
def test_only_names_that_a_certificate_and_a_folder_can_bear_are_taken(tmp_path_factory, name):
    folder = tmp_path_factory.mktemp("pki")
    pki.create(folder, "lab")
    try:
        pki.issue(folder, {name: ["10.0.0.1"]})
    except UserError as error:
        assert "Rename it" in error.message
        assert sorted(path.name for path in folder.iterdir()) == ["ca.crt", "issuer.pem"]
    else:
        assert (folder / name / "node.crt").parent.parent == folder


def test_secrets_are_yaml_that_ansible_can_read_as_one_dictionary():
    content = yaml.safe_load((secret_files.ensure("lab", HOSTS) / "secrets.yml").read_text())
    assert set(content) == {"cql_admin", "cql_kairosdb", "rest", "retired"}
    assert all(set(content[name]) == {"user", "password"} for name in content if name != "retired")
