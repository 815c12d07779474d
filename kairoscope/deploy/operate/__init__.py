"""Day two: the verbs that change, mend, save and bring back a deployed target.

Each looks first and refuses what is not safe, changes one thing at a time by an Ansible playbook,
and looks again. `cluster` says what is seen of a target, `safety` what that allows; `adding`,
`removing` and `replacing` (with what they share in `nodes`), `servers`, `data` and `rotate` are the
verbs; `snapshots` and `evidence` move files; `queue` and `cpu_profile` look at one server.
docs/operations.md has the rules and the measured effects.
"""
