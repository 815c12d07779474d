"""The lab: systemd hosts on this machine, in a network of their own, reached by SSH as any host.

`host` has the hosts, `network` the network and its faults, `image` what all hosts are made of,
`system` what this machine has to have. docs/lab.md says how it works and what it cannot show.
"""

from kairoscope.targets.lab.host import Lab, LabHost
from kairoscope.targets.lab.system import check

__all__ = ["Lab", "LabHost", "check"]
