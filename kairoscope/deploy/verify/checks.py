"""All checks of a deployed target, in the order in which they are made."""

from kairoscope.deploy.verify import access, kairosdb, machines, servers, store
from kairoscope.deploy.verify.check import Check

CHECKS = (
    Check("deploy finished", servers.deployed),
    Check("running", servers.running),
    Check("starts at boot", servers.at_boot, managed=True),
    Check("ring", store.ring),
    Check("schema agreement", store.schema),
    Check("replication", store.replication),
    Check("versions", servers.versions),
    Check("shards", store.shards, sharded=True),
    Check("KairosDB", kairosdb.healthy),
    Check("points given up", kairosdb.given_up),
    Check("settings", kairosdb.settings),
    Check("read back", kairosdb.read_back),
    Check("clock", machines.clocks, managed=True),
    Check("disk space", machines.disks),
    Check("monitoring", servers.monitoring, watched=True),
    Check("firewall", machines.firewall, managed=True),
    Check("ports", machines.ports, managed=True),
    Check("certificate", access.certificates, secured=True),
    Check("CQL over TLS", access.cql_tls, secured=True),
    Check("between nodes", access.internode_tls, secured=True),
    Check("default superuser", access.default_superuser, secured=True),
    Check("plain HTTP", access.plain_http, secured=True),
    Check("REST login", access.rest_login, secured=True),
)
