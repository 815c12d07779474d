"""The experiment: the one file a user edits, checked before anything is touched.

An experiment says *what* is run: the shape of the cluster, its tuning, the load and the limits
that make a run a pass. Where it runs is the target's business, and everything that can be
computed is left to the plan: a field that is absent here is derived there.

`schema/` has every field with its unit, bounds and reason, `model` the whole, `checks` what must
hold between fields (with `timing`). `loading` takes the text that `files` finds, reads it with
`document` and lays the command line over it; `problems` and `messages` say what is wrong.
"""

from kairoscope.experiment.files import available
from kairoscope.experiment.loading import Overrides, load
from kairoscope.experiment.model import Experiment
from kairoscope.experiment.schema.kairosdb import replicas_needed

__all__ = ["Experiment", "Overrides", "available", "load", "replicas_needed"]
