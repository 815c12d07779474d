"""Every field of an experiment with its unit, bounds and reason: a module for each section of the
file. The whole is in `experiment.model`."""
