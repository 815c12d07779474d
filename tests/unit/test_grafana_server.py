"""What Grafana is given where its package is: in the form that its documentation has.

Read in grafana/grafana: docs/sources/administration/provisioning/index.md at 0025f37 (keys, and in
a table the jsonData of each data source) and conf/defaults.ini at 002060f. None has read ours.
"""

import configparser
import json
from typing import Any

import pytest
import yaml
from watched import WATCHED, here, hosts, rendered

from kairoscope import paths

pytestmark = pytest.mark.usefixtures("nothing_fetched")

FOLDER = paths.DASHBOARDS / "grafana"
ROLE = paths.ANSIBLE / "roles" / "monitoring"
DATA_SOURCE = {
    *("name", "type", "access", "orgId", "uid", "url", "user", "database", "basicAuth"),
    *("basicAuthUser", "withCredentials", "isDefault", "jsonData", "secureJsonData", "version"),
    "editable",
}
JSON_DATA = {
    "prometheus": {
        *("httpMethod", "customQueryParameters", "timeInterval", "manageAlerts"),
        *("alertmanagerUid", "prometheusType", "prometheusVersion", "cacheLevel"),
    },
    "alertmanager": {"implementation", "handleGrafanaManagedAlerts"},
}
PROVIDER = {
    *("name", "orgId", "folder", "folderUid", "type", "disableDeletion"),
    *("updateIntervalSeconds", "allowUiUpdates", "options"),
}
SETTINGS = {
    "paths": {"data", "logs", "plugins", "provisioning"},
    "server": {"http_addr", "http_port"},
    "auth": {"disable_login_form"},
    "auth.basic": {"enabled"},
    "auth.anonymous": {"enabled", "org_role"},
    "security": {"disable_initial_admin_creation"},
    "analytics": {
        *("reporting_enabled", "check_for_updates", "check_for_plugin_updates"),
        "feedback_links_enabled",
    },
    "news": {"news_feed_enabled"},
    "snapshots": {"external_enabled"},
    "dashboards": {"default_home_dashboard_path"},
    "plugins": {"allow_loading_unsigned_plugins"},
    "log": {"mode", "level"},
}
"""Of defaults.ini, those that are set."""


def given() -> Any:
    """Hosts of one's own whose inventory has a package of Grafana."""
    return hosts(grafana_package="grafana.deb")


def written(name: str) -> Any:
    return yaml.safe_load(rendered(f"grafana/server/{name}", given()))


def home() -> str:
    return str(given().monitoring[0].vars["home"]) + "/grafana"


def test_it_is_there_where_the_monitoring_host_has_its_package_or_its_repository():
    for more in ({"grafana_package": "x.deb"}, {"grafana_repository_key": "x.asc"}):
        found = hosts(**more)
        assert found.monitoring[0].vars["grafana_port"] == 3000
        assert all("grafana_port" not in host.vars for host in (*found.hosts, *found.loader))
    assert "grafana_port" not in hosts().monitoring[0].vars
    assert "grafana_port" not in here(WATCHED).monitoring[0].vars


def test_data_sources_are_as_documented_and_the_ones_that_are_deployed():
    document = written("datasources.yml")
    assert document["apiVersion"] == 1
    found = {source["type"]: source for source in document["datasources"]}
    assert set(found) == set(JSON_DATA)
    for kind, source in found.items():
        assert set(source) <= DATA_SOURCE, kind
        assert set(source["jsonData"]) <= JSON_DATA[kind], kind
        assert source["access"] == "proxy"
    assert found["prometheus"]["url"] == "http://127.0.0.1:9090"
    assert found["alertmanager"]["url"] == "http://127.0.0.1:9093"
    assert found["prometheus"]["jsonData"]["alertmanagerUid"] == found["alertmanager"]["uid"]
    # The dashboards ask the default one.
    assert [source.get("isDefault") for source in document["datasources"]] == [True, None]


def test_grafana_knows_how_often_prometheus_asks():
    asks = yaml.safe_load(rendered("prometheus/prometheus.yml", given()))["global"]
    (source, _) = written("datasources.yml")["datasources"]
    assert source["jsonData"]["timeInterval"] == asks["scrape_interval"]


def test_dashboards_are_looked_for_where_the_role_puts_them():
    document = written("dashboards.yml")
    (provider,) = document["providers"]
    assert document["apiVersion"] == 1
    assert set(provider) <= PROVIDER
    assert (provider["type"], provider["options"]) == ("file", {"path": f"{home()}/dashboards"})
    (copied,) = [
        task["ansible.builtin.copy"]
        for task in yaml.safe_load((ROLE / "tasks/grafana.yml").read_text())
        if "ansible.builtin.copy" in task
    ]
    assert copied["dest"] == "{{ home }}/grafana/dashboards/"
    # Two with one title or uid in a folder would be one of them.
    boards = [json.loads(path.read_text()) for path in FOLDER.glob("*.json")]
    assert len(boards) == len({b["uid"] for b in boards}) == len({b["title"] for b in boards}) > 3


def test_settings_are_grafanas_and_name_what_is_there():
    found = configparser.ConfigParser(interpolation=None)
    found.read_string(rendered("grafana/server/grafana.ini", given()))
    assert {name: set(found[name]) for name in found.sections()} == SETTINGS
    assert (found["server"]["http_addr"], found["server"]["http_port"]) == ("127.0.0.1", "3000")
    first = found["dashboards"]["default_home_dashboard_path"]
    assert first.removeprefix(f"{home()}/dashboards/") in {p.name for p in FOLDER.glob("*.json")}
    # As the role writes them, below the folder that the settings name.
    files = yaml.safe_load((ROLE / "vars/main.yml").read_text())["monitoring_grafana_files"]
    provisioning = found["paths"]["provisioning"].removeprefix(f"{home()}/")
    assert set(files) == {path.stem for path in (FOLDER / "server").glob("*.j2")}
    for kind in ("datasources", "dashboards"):
        assert files[f"{kind}.yml"].startswith(f"{provisioning}/{kind}/")
