"""ScyllaDB's configuration against what its releases know."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import jinja2
import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from test_firewall import trusted

from kairoscope import paths
from kairoscope.cli import known, roles
from kairoscope.errors import UserError
from kairoscope.experiment import Overrides, load
from kairoscope.hosts.secret_files import Login
from kairoscope.stacks.kairosdb import variables
from kairoscope.stacks.kairosdb.scylla import options

ROLE = paths.ANSIBLE / "roles" / "scylla"
RELEASES = [
    "5.2.19",
    "5.4.9",
    "6.0.4",
    "6.1.5",
    "6.2.3",
    "2025.1.14",
    "2025.2.5",
    "2025.3.8",
    "2025.4.10",
    "2026.1.11",
    "2026.2.5",
]
ARGUMENTS = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text())["scylla_arguments"]
PLANNED = {
    "batch_size_warn_kib": 512,
    "batch_size_fail_kib": 1024,
    "commitlog_sync": "periodic",
    "commitlog_sync_period_ms": 1000,
}


def rendered(version: str, *, secured: bool = True, **more) -> str:
    """scylla.yaml as the role renders it."""
    environment = jinja2.Environment(  # noqa: S701 (YAML, not a page)
        loader=jinja2.FileSystemLoader(ROLE / "templates"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["to_json"] = lambda value: yaml.safe_dump(
        value, default_style='"', default_flow_style=True, width=10_000
    ).strip()
    return environment.get_template("scylla.yaml.j2").render(
        {
            "ansible_managed": "managed",
            "scylla_version": version,
            "scylla_release": {
                "options": options.release(version).options,
                "shipped": options.release(version).shipped,
            },
            "scylla_data": "/var/lib/scylla",
            "scylla_seeds": "10.0.0.1",
            "scylla_settings": {},
            "scylla_superuser": {"name": "admin", "hash": "$6$salt$hash"},
            "cluster_name": 'a "cluster"',
            "secured": secured,
            "pki_host_dir": "/pki",
            "address": "10.0.0.2",
            "storage_port": 7000,
            "api_address": "127.0.0.1",
            "api_port": 10000,
            "prometheus_address": "10.0.0.2",
            "prometheus_port": 9180,
            "native_transport_port": 9042,
            "plan": {"storage": PLANNED},
            **more,
        }
    )


@pytest.mark.parametrize("secured", [True, False])
@pytest.mark.parametrize("version", RELEASES)
def test_what_the_role_renders_is_used_by_each_release(version, secured):
    options.check(version, rendered(version, secured=secured), ARGUMENTS)


def test_a_row_of_a_point_a_second_is_no_warning():
    """KairosDB's rows are three weeks wide; each would be warned of, at each compaction."""
    text = yaml.safe_load(rendered(RELEASES[-1]))
    assert text["compaction_rows_count_warning_threshold"] > 21 * 24 * 3600


@pytest.mark.parametrize("version", RELEASES)
def test_a_commit_log_that_is_waited_for_is_known_to_each_release(version):
    text = rendered(version, plan={"storage": PLANNED | {"commitlog_sync": "batch"}})
    options.check(version, text, ARGUMENTS)
    assert yaml.safe_load(text)["commitlog_sync"] == "batch"


@pytest.mark.parametrize("secured", [True, False])
@pytest.mark.parametrize("version", RELEASES)
def test_what_a_shared_machine_has_is_used_by_each_release(version, secured):
    """As the role renders it on target local: all in the node's own folder, on its own address."""
    plan = known.plan(load("laptop", Overrides(engine="scylla")), "local")
    of_machine = variables.scylla_of_shared_cores(plan, grows=False)
    text = rendered(
        version,
        secured=secured,
        scylla_data="/home/me/local/storage-1/data",
        scylla_settings=of_machine["scylla_settings"],
        **variables.scylla_listens("127.0.61.2", "127.0.61.2"),
    )
    options.check(version, text, of_machine["scylla_arguments"])
    configured = yaml.safe_load(text)
    for name in ("api_address", "prometheus_address"):
        assert configured[name] == "127.0.61.2"
    assert configured["workdir"] == "/home/me/local/storage-1/data"
    assert configured["commitlog_directory"] == "/home/me/local/storage-1/data/commitlog"
    assert configured["developer_mode"] is True


def test_what_depends_on_the_release():
    oldest, newest = (yaml.safe_load(rendered(v)) for v in ("5.4.9", "2026.2.5"))
    assert "enable_tablets" not in oldest
    assert oldest["restrict_replication_simplestrategy"] is True
    assert newest["tablets_mode_for_new_keyspaces"] == "disabled"
    assert newest["replication_strategy_fail_list"] == ["SimpleStrategy"]
    assert newest["enable_create_table_with_compact_storage"] is False
    assert yaml.safe_load(rendered("6.2.3"))["enable_tablets"] is False


def test_what_a_release_is_shipped_with_is_not_lost_with_its_file():
    """Our file takes the place of the release's own, whose settings are not the server's."""
    shipped = ("consistent_cluster_management", "force_schema_commit_log", "sstable_format")

    def those(version: str, **more) -> dict:
        settings = yaml.safe_load(rendered(version, **more))
        return {name: settings[name] for name in shipped if name in settings}

    raft, log = shipped[:2]
    assert those("5.2.19") == {raft: True, log: True}
    assert those("5.4.9") == {log: True}
    assert those("2026.1.11") == {}
    assert those("2026.2.5") == {"sstable_format": "mt"}
    assert those("5.2.19", scylla_settings={raft: False}) == {raft: False, log: True}
    for version in RELEASES:
        known = options.release(version)
        assert set(known.shipped) <= set(known.options), version


@pytest.mark.parametrize(
    ("members", "without"),
    [
        ([None, None, None], False),
        (["num_tokens: 256", None, None], True),
        (["consistent_cluster_management: true", None, "num_tokens: 256"], True),
        (["consistent_cluster_management: true"] * 3, False),
    ],
    ids=["new", "one-joins", "half-way", "made-with"],
)
def test_a_cluster_that_was_made_without_raft_stays_so(tmp_path, members, without):
    """None: a node that has no data yet. With Raft it would wait for the others for ever."""
    found = asked_of_raft(tmp_path, members)
    assert found == dict.fromkeys(found, without)
    assert len(found) == len(members)
    settings = yaml.safe_load(rendered("5.2.19", scylla_without_raft=without))
    assert settings.get("consistent_cluster_management") is (None if without else True)


@pytest.mark.parametrize("without", [True, False])
def test_nor_does_one_of_its_nodes_that_is_deployed_to_alone(tmp_path, without):
    """As the new machine of a dead node in the middle of another verb."""
    others = "num_tokens: 256" if without else "consistent_cluster_management: true"
    found = asked_of_raft(tmp_path, [others, None, others], "--limit", "s1")
    assert found == {"s1": without}


def asked_of_raft(tmp_path, members, *arguments) -> dict[str, bool]:
    """Whether each node that is played on finds that the cluster was made without Raft."""
    for i, text in enumerate(members):
        home = tmp_path / f"s{i}"
        (home / "conf").mkdir(parents=True)
        if text:
            (home / "data" / "data" / "system").mkdir(parents=True)
        # What was rendered before a node's first start says nothing of the cluster.
        (home / "conf" / "scylla.yaml").write_text(text or "num_tokens: 256")
    tasks = yaml.safe_load((ROLE / "tasks" / "configure.yml").read_text())
    names = ["Configuration of a node that has joined"]
    names.append("Whether the cluster was made with Raft, where there is a choice")
    tell = {"copy": {"content": "{{ scylla_without_raft }}", "dest": "{{ home }}/told"}}
    play = {
        "hosts": "storage:!away",
        "gather_facts": False,
        "vars": yaml.safe_load((ROLE / "vars" / "main.yml").read_text())
        | {
            "scylla_from": "folder",
            "scylla_release": {"shipped": {"consistent_cluster_management": True}},
        },
        "tasks": [
            *yaml.safe_load((ROLE / "tasks" / "ever_started.yml").read_text()),
            *(task for task in tasks if task["name"] in names),
            tell,
        ],
    }
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    hosts = {
        f"s{i}": {
            "home": str(tmp_path / f"s{i}"),
            "keyspaces_dir": str(tmp_path / f"s{i}" / "data" / "data"),
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
        }
        for i, _ in enumerate(members)
    }
    # One that does not answer says nothing.
    away = {"ansible_host": "127.0.0.1", "ansible_port": 1, "home": "/x", "keyspaces_dir": "/x"}
    hosts |= {"away": away}
    inventory = tmp_path / "inventory.yml"
    inventory.write_text(yaml.safe_dump({"all": {"children": {"storage": {"hosts": hosts}}}}))
    tool = Path(sys.executable).with_name("ansible-playbook")
    done = subprocess.run(
        [tool, "-i", inventory, *arguments, tmp_path / "play.yml"],
        cwd=paths.ANSIBLE,
        env=os.environ | {"ANSIBLE_CONFIG": str(paths.ANSIBLE / "ansible.cfg")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = tmp_path.glob("s*/told")
    return {path.parent.name: path.read_text() == "True" for path in told}


@pytest.mark.parametrize("version", RELEASES)
def test_who_is_audited_is_said_where_a_release_can_audit(version):
    """2026.2 writes logins and schema changes to a table of its own unless it is told not to."""
    can = "audit" in options.release(version).options
    assert can == version.startswith("202")
    assert yaml.safe_load(rendered(version)).get("audit") == ("none" if can else None)
    if can:
        text = rendered(version, scylla_settings={"audit": "table"})
        options.check(version, text, ARGUMENTS)
        assert yaml.safe_load(text)["audit"] == "table"


def test_secured_has_no_port_and_no_login_without():
    configured = yaml.safe_load(rendered("2026.1.11"))
    assert configured["cluster_name"] == 'a "cluster"'
    for side in ("client_encryption_options", "server_encryption_options"):
        assert configured[side]["require_client_auth"] is True
    assert configured["server_encryption_options"]["internode_encryption"] == "all"
    # No further port without TLS.
    ports = {name: value for name, value in configured.items() if "transport_port" in name}
    assert ports["native_shard_aware_transport_port"] == 19042
    assert ports["native_shard_aware_transport_port_ssl"] == 19042
    assert configured["authenticator"] == "PasswordAuthenticator"
    assert configured["auth_superuser_name"] == "admin"
    # Before there was such an option the first superuser is the known one, until roles are made.
    assert not any("superuser" in name for name in yaml.safe_load(rendered("5.2.19")))
    open_to_all = yaml.safe_load(rendered("2026.1.11", secured=False))
    assert open_to_all["authenticator"] == "AllowAllAuthenticator"
    assert not any("encryption" in name or "superuser" in name for name in open_to_all)


def test_a_node_that_takes_a_dead_one_s_place_says_so():
    assert "replace_node_first_boot" not in rendered("2026.1.11")
    text = rendered("2026.1.11", replaces="5d1f8f5e-0000-4000-8000-000000000000")
    options.check("2026.1.11", text, ARGUMENTS)
    assert yaml.safe_load(text)["replace_node_first_boot"].startswith("5d1f8f5e")


def test_a_release_goes_by_its_line():
    known = options.release("2026.1.99")
    assert known.described_by == "2026.1.11"
    assert known.options == options.release("2026.1.11").options


@pytest.mark.parametrize("version", ["2024.1.3", "2026.1", "2026.3.0-rc1", "", "x"])
def test_an_unknown_release_is_refused(version):
    with pytest.raises(UserError, match=r"not recorded; there are 5\.2\.x"):
        options.release(version)


def problems(text: str, arguments: str = "", version: str = "2026.1.11") -> list[str]:
    known = options.release(version)
    return options.yaml_problems(text, known) + options.argument_problems(arguments, known)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "cluster_nme: x",
            "cluster_nme is not known to ScyllaDB 2026.1.11; did you mean cluster_n",
        ),
        ("saved_caches_directory: /x", "is accepted and ignored by ScyllaDB 2026.1.11"),
        ("consistent_cluster_management: true", "is deprecated in ScyllaDB 2026.1.11"),
        ("concurrent_writes: 32", "has no meaning in ScyllaDB 2026.1.11"),
        (
            "client_encryption_options: {optional: true}",
            "client_encryption_options.optional is not",
        ),
        ("client_encryption_options: yes please", "not a map of options"),
        ("num_tokens: 1\\nnum_tokens: 2", "num_tokens is given twice"),
        ("a: [", "not valid YAML at line 1"),
        ("- a", "not a map of options"),
        ("", "not a map of options"),
    ],
)
def test_what_scylla_yaml_must_not_have(text, found):
    said = problems(text.replace("\\n", "\n"))
    assert len(said) == 1
    assert found in said[0]


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ("--background-writer-scheduling-quota=0.3", "is deprecated in"),
        ("--cluster-name x --smp=4", None),
        ("--log-to-syslog 1 stray", None),
        ("stray --smp 1", "argument stray: belongs to no option"),
        ("--smp 1 2", "argument 2: belongs to no option"),
        ("--polling-mode", "argument --polling-mode is not known to"),
        ("--smp '1", "No closing quotation"),
    ],
)
def test_what_the_arguments_must_not_have(arguments, found):
    said = problems("cluster_name: x", arguments)
    if found is None:
        assert [text for text in said if "stray" not in text] == []
    else:
        assert len(said) == 1
        assert found in said[0]


def test_the_quota_of_2018_fits_no_release_that_is_known():
    # An option of 2.x; later releases took it without using it, then called it deprecated.
    for version in RELEASES:
        assert problems("cluster_name: x", "--background-writer-scheduling-quota 0.3", version)


def test_a_refusal_names_all_of_it_and_no_value():
    runner = CliRunner()
    command = click.Group(commands=[roles.check_scylla])
    done = runner.invoke(
        command,
        ["check-scylla", "--version", "2026.1.11", "--arguments", "--nonsense", "-"],
        input="auth_superuser_salted_pasword: hush\nincremental_backup: true\n",
    )
    assert done.exit_code == 2
    assert "auth_superuser_salted_pasword is not known" in done.output
    assert "incremental_backup is not known" in done.output
    assert "--nonsense" in done.output
    assert "hush" not in done.output


@given(st.sampled_from(RELEASES), st.dictionaries(st.text(), st.integers(), min_size=1))
def test_any_map_is_judged_name_by_name(version, settings):
    known = options.release(version)
    said = options.yaml_problems(yaml.safe_dump(settings, allow_unicode=True), known)
    assert len(said) == sum(known.statuses.get(name) != "U" for name in settings)


@given(st.text())
def test_any_text_is_judged(text):
    known = options.release("2026.1.11")
    assert isinstance(options.yaml_problems(text, known), list)
    assert isinstance(options.argument_problems(text, known), list)


def test_a_password_hash_is_crypt_s():
    if not shutil.which("openssl"):
        pytest.skip("no openssl to compare with")
    login = Login("admin", "a password, and ünïcode")
    made = options.password_hash(login)
    found = re.fullmatch(r"\$6\$([0-9a-f]{16})\$[./0-9A-Za-z]{86}", made)
    assert found
    other = subprocess.run(
        ["openssl", "passwd", "-6", "-salt", found[1], "-stdin"],
        input=login.password,
        capture_output=True,
        text=True,
        check=True,
    )
    assert other.stdout.strip() == made
    assert options.password_hash(login) == made
    assert options.password_hash(Login("other", login.password)) != made


def test_the_table_is_whole():
    table = yaml.safe_load(options.TABLE.read_text())
    assert table["releases"] == RELEASES
    assert len(table["options"]) == 404
    for name, letters in table["options"].items():
        assert re.fullmatch(rf"[UNDI.]{{{len(RELEASES)}}}", letters), name
        assert set(letters) != {"."}


def refused_to_found(own_seeds: bool, **has_data: bool) -> bool:
    """Whether an empty storage-1 is kept from making a cluster; `has_data`: who has a node's."""
    look, refuse = yaml.safe_load((ROLE / "tasks" / "first_start.yml").read_text())
    others = [name.replace("_", "-") for name in has_data if name != "storage_1"]
    facts = {
        "inventory_hostname": "storage-1",
        "address": "10.0.0.1",
        "scylla_seeds": "10.0.0.1" if own_seeds else "10.0.0.2",
        "groups": {"storage": ["storage-1", *others]},
        **trusted(refuse["vars"]),
    }
    templar = Templar(DataLoader(), variables=facts)
    assert templar.template(trust_as_template(look["loop"])) == others
    asked = templar.template(trust_as_template("{{ " + look["when"] + " }}"))
    # As Ansible gives what a loop has found, or left out.
    facts[look["register"]] = {
        "results": [
            {"item": name}
            | (
                {"stat": {"exists": has_data[name.replace("-", "_")]}}
                if asked
                else {"skipped": True}
            )
            for name in others
        ]
    }
    holds = "{{ " + refuse["ansible.builtin.assert"]["that"] + " }}"
    return not Templar(DataLoader(), variables=facts).template(trust_as_template(holds))


def test_an_empty_first_node_makes_no_second_cluster():
    fresh = dict.fromkeys(("storage_1", "storage_2", "storage_3"), False)
    assert not refused_to_found(True, **fresh)
    assert refused_to_found(True, **fresh | {"storage_3": True})
    assert not refused_to_found(True, storage_1=False)
    assert not refused_to_found(False, **fresh | {"storage_3": True})
