"""Target `aws`: Terraform provisions the hosts, its outputs become the inventory.

`terraform` runs Terraform in a working folder of the target, `guard` refuses plans that would
destroy data, `machines` makes hosts of Terraform's outputs, and `target` is the order of it
all. What it is made of and what it costs is the plan's business (`kairoscope.targets.aws.shape`).
"""
