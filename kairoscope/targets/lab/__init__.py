"""The lab: systemd hosts on this machine, in a network of their own, reached by SSH as any host.

`lab` has what can be done with it: with hosts (`host`) as `making` makes and `running` runs them,
with their `network` and their `disks`. `kept` is what is in a lab's folder, `image` what all hosts
are made of, `system` what this machine has to have. docs/lab.md says how it works and what it
cannot show.
"""

from kairoscope.targets.lab.host import LabHost
from kairoscope.targets.lab.lab import Lab
from kairoscope.targets.lab.system import check

__all__ = ["Lab", "LabHost", "check"]
