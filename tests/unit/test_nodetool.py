"""The proxyhistograms parser, on the forms that real nodetools print."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kairoscope.hosts.inventory import Host
from kairoscope.stacks.kairosdb.servers import nodetool

# As Cassandra 5.0.9's nodetool prints it.
SIX = """proxy histograms
Percentile       Read Latency      Write Latency      Range Latency   CAS Read Latency  CAS Write Latency View Write Latency
                     (micros)           (micros)           (micros)           (micros)           (micros)           (micros)
50%                   4768.00            1331.00           11864.00               0.00               0.00               0.00
75%                   9887.00            2299.00           11864.00               0.00               0.00               0.00
95%                  20501.00            8239.00           11864.00               0.00               0.00               0.00
98%                  29521.00           14237.00           11864.00               0.00               0.00               0.00
99%                  42510.00           20501.00           11864.00               0.00               0.00               0.00
Min                     61.00              18.00            9888.00               0.00               0.00               0.00
Max                 219342.00          654949.00           11864.00               0.00               0.00               0.00

"""  # noqa: E501

# As ScyllaDB's Java nodetool printed it in 2018.
THREE = """proxy histograms
Percentile      Read Latency     Write Latency     Range Latency
                    (micros)          (micros)          (micros)
50%                     0.00             61.00              0.00
75%                     0.00             88.00              0.00
95%                     0.00            182.00              0.00
98%                     0.00            258.00              0.00
99%                     0.00            372.00              0.00
Min                     0.00             10.00              0.00
Max                     0.00         129557.00              0.00
"""


def test_six_columns_by_header():
    rows = nodetool.parse_proxyhistograms(SIX)
    assert list(rows) == ["Read", "Write", "Range", "CAS Read", "CAS Write", "View Write"]
    assert rows["Write"] == {
        "50%": 1331.0,
        "75%": 2299.0,
        "95%": 8239.0,
        "98%": 14237.0,
        "99%": 20501.0,
        "Min": 18.0,
        "Max": 654949.0,
    }
    assert rows["Read"]["99%"] == 42510.0


def test_three_columns_by_header():
    rows = nodetool.parse_proxyhistograms(THREE)
    assert list(rows) == ["Read", "Write", "Range"]
    assert rows["Write"]["99%"] == 372.0


def test_columns_are_found_by_name_not_by_place():
    swapped = THREE.replace("Read Latency     Write Latency", "Write Latency     Read Latency")
    assert nodetool.parse_proxyhistograms(swapped)["Read"]["50%"] == 61.0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "Percentile"),
        ("nodetool: Failed to connect to '127.0.0.1:7199'", "Percentile"),
        (SIX.replace("99%  ", "xx   "), "rows missing: 99%"),
        (SIX.replace("Latency", "Speed"), "no latency column"),
        (THREE.replace("372.00", "NaNs"), "row 99%"),
        (THREE.replace("             10.00", ""), "row Min has 2 cells"),
        (SIX.replace("Write Latency      Range", "Range Latency      Range"), "unexpected columns"),
    ],
)
def test_other_text_is_an_error(text, says):
    with pytest.raises(nodetool.FormatError, match=says):
        nodetool.parse_proxyhistograms(text)


@given(
    st.lists(
        st.floats(0, 1e9, allow_nan=False).map(lambda x: round(x, 2)), min_size=42, max_size=42
    )
)
def test_whatever_is_printed_is_read_back(values):
    columns = ["Read", "Write", "Range", "CAS Read", "CAS Write", "View Write"]
    header = "Percentile" + "".join(f"{c + ' Latency':>19}" for c in columns)
    lines = ["proxy histograms", header, " " * 10 + f"{'(micros)':>19}" * 6]
    for i, label in enumerate(nodetool.PERCENTILES):
        lines.append(f"{label:<10}" + "".join(f"{v:19.2f}" for v in values[6 * i : 6 * i + 6]))
    rows = nodetool.parse_proxyhistograms("\n".join(lines))
    for i, label in enumerate(nodetool.PERCENTILES):
        assert [rows[c][label] for c in columns] == values[6 * i : 6 * i + 6]


def local_node(tool):
    return Host("storage-1", "storage", {"ansible_connection": "local", "nodetool": str(tool)})


def test_a_tool_that_fails_is_an_error(tmp_path):
    tool = tmp_path / "nodetool"
    tool.write_text("#!/bin/sh\necho 'Connection refused' >&2\nexit 1\n")
    tool.chmod(0o755)
    with pytest.raises(nodetool.NodetoolError, match="Connection refused"):
        nodetool.run(local_node(tool), "status")
    with pytest.raises(nodetool.NodetoolError, match="No such file"):
        nodetool.run(local_node(tmp_path / "nothing"), "status")
