# The verbs. `make help` lists them; what each does is in kairoscope/ (`kairoscope --help`).
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

TARGET ?= local
EXPERIMENT ?= laptop
SENSORS ?=
RATE ?=
DURATION ?=
PROTOCOL ?=
ENGINE ?=
SCYLLA ?=
# On hosts it is a part of a deploy, on this machine for who asks for it.
MONITORING ?= $(if $(filter lab,$(TARGET)),true,false)
ACCOUNT ?= terraform/account.tfvars
INVENTORY ?=
BACKEND ?=
ONLY ?=
BESIDE ?=
PROCESS ?= kairosdb-1
A ?=
WITH ?=
WHAT ?=
VERB ?=
LIMIT ?=
TO ?=
FROM ?=
PRECISION ?=
RETENTION ?=
VARY ?=
CONFIRM ?=
QUICK ?=
MINUTES ?=
SEED ?=
DEPLOYMENT ?=
SERVE ?=
KEY ?=
ARGS ?=
VERSION ?=
RAN ?= $(wildcard .kairoscope/tests/test*.xml .kairoscope/tests/test*.md)

# What a target needs on this machine beside Java and Maven.
NEEDS_aws := ssh terraform
NEEDS_hosts := ssh
NEEDS_lab := ssh lab

# Verbs of day two that bring the target to another experiment; the others leave it as it is.
SHAPING := rolling-config add-kairosdb remove-kairosdb add-storage decommission upgrade-scylla

VENV := .venv
BIN := $(VENV)/bin
KAIROSCOPE := $(BIN)/kairoscope
CHECKOV_VENV := .venv-checkov
TERRAFORM = TF_DATA_DIR='$(CURDIR)/.kairoscope/terraform-lint' $(KAIROSCOPE) terraform -chdir=terraform
SCALE = $(if $(SENSORS),--sensors '$(SENSORS)') $(if $(RATE),--rate '$(RATE)') $(if $(DURATION),--duration '$(DURATION)') \
  $(if $(PROTOCOL),--protocol '$(PROTOCOL)') $(if $(ENGINE),--engine '$(ENGINE)')
SCALED = '$(EXPERIMENT)' --target '$(TARGET)' $(SCALE)

WATCHED = $(if $(filter-out false,$(MONITORING)),--monitoring)
HOSTS = $(CLOUD) $(if $(INVENTORY),--inventory '$(INVENTORY)')
SERVED = $(HOSTS) $(if $(SCYLLA),--scylla '$(SCYLLA)')
DEPLOYED = $(SERVED) $(WATCHED)
CLOUD = --account '$(ACCOUNT)' $(if $(BACKEND),--backend '$(BACKEND)')

##@ Run an experiment
.PHONY: demo
demo: tools ## Set up, deploy, load, report: prints where to watch, the verdict and where the report is
	@$(KAIROSCOPE) demo $(SCALED) $(DEPLOYED) $(ARGS)

.PHONY: plan
plan: $(VENV)/installed ## Show what EXPERIMENT resolves to: every setting, its arithmetic and reason
	@$(KAIROSCOPE) plan $(SCALED)

.PHONY: deploy
deploy: tools ## Deploy TARGET for EXPERIMENT; changes only what differs (MONITORING=true: with Prometheus and alerts)
	@$(KAIROSCOPE) deploy $(SCALED) $(DEPLOYED)

.PHONY: plan-aws
plan-aws: $(VENV)/installed ## Show what deploying EXPERIMENT on aws would create, change and delete
	@scripts/need terraform
	@$(KAIROSCOPE) plan-aws $(SCALED) $(CLOUD)

.PHONY: cost
cost: $(VENV)/installed ## Print what EXPERIMENT costs on aws, by the hour and for a run
	@$(KAIROSCOPE) cost $(SCALED)

.PHONY: size
size: $(VENV)/installed ## Say which nodes SENSORS= (RATE=, RETENTION=90d, ENGINE=) take on aws, and what they cost (docs/sizing.md)
	@$(if $(SENSORS),,echo "SENSORS= how many? Such as 1000000" >&2; exit 2)
	@$(KAIROSCOPE) size --sensors '$(SENSORS)' $(if $(RATE),--rate '$(RATE)') $(if $(RETENTION),--retention '$(RETENTION)') \
	  $(if $(ENGINE),--engine '$(ENGINE)') $(ARGS)

.PHONY: status
status: $(VENV)/installed ## Show every process, the ring, KairosDB's health and queue depth
	@$(KAIROSCOPE) status --target '$(TARGET)'

.PHONY: verify
verify: $(VENV)/installed ## Check that TARGET is what it should be: ring, settings, TLS, ports, clocks, points read back
	@$(KAIROSCOPE) verify --target '$(TARGET)'

.PHONY: load
load: $(VENV)/installed ## Run EXPERIMENT's load on TARGET and judge it (SENSORS=, RATE=, DURATION= scale it)
	@$(KAIROSCOPE) load $(SCALED) $(ARGS)

.PHONY: search
search: scales-itself tools ## Find the most sensors that EXPERIMENT sustains on TARGET (PRECISION=5%, VARY=rate, FROM=, TO=, CONFIRM=1; docs/search.md)
	@$(KAIROSCOPE) search '$(EXPERIMENT)' --target '$(TARGET)' $(SERVED) $(if $(ENGINE),--engine '$(ENGINE)') \
	  $(if $(PRECISION),--precision '$(PRECISION)') $(if $(VARY),--vary '$(VARY)') $(if $(FROM),--from '$(FROM)') \
	  $(if $(TO),--to '$(TO)') $(if $(CONFIRM),--confirm) $(ARGS)

.PHONY: scales-itself
scales-itself:
	@[ -z '$(SENSORS)$(RATE)$(DURATION)$(PROTOCOL)' ] || { echo "error: make search scales the experiment by itself \
	(FROM=, TO=): it takes no SENSORS=, RATE=, DURATION=, PROTOCOL=" >&2; exit 2; }

.PHONY: rehearse
rehearse: $(VENV)/installed ## Run EXPERIMENT's sensors against a sink that discards everything: can this machine carry them?
	@$(KAIROSCOPE) rehearse $(SCALED)

.PHONY: profile
profile: $(VENV)/installed ## Show where the CPU time of a local server goes while it is loaded (PROCESS=kairosdb-1)
	@$(KAIROSCOPE) profile '$(PROCESS)' --target '$(TARGET)'

.PHONY: judge
judge: $(VENV)/installed ## Judge the latest run again from its files: verdict, ledger, measurements
	@$(KAIROSCOPE) judge

.PHONY: report
report: $(VENV)/installed ## Write report.html and report.md of the latest run anew (SERVE=1: all runs, in a browser, until Ctrl-C)
	@$(KAIROSCOPE) report $(if $(SERVE),--serve) $(ARGS)

.PHONY: compare
compare: $(VENV)/installed ## Compare runs: A="run …" WITH="run …"; page, JSON, text (docs/comparing.md)
	@$(KAIROSCOPE) compare $(foreach run,$(A),'$(run)') $(foreach run,$(WITH),--with '$(run)') $(ARGS)

.PHONY: faults
faults: tools ## One fault after the other under load on TARGET, each in a run of its own (MINUTES=, SEED= at random; docs/faults.md)
	@$(KAIROSCOPE) faults $(if $(filter file,$(origin EXPERIMENT)),,'$(EXPERIMENT)') --target '$(TARGET)' $(SCALE) $(SERVED) \
	  $(if $(MINUTES),--minutes '$(MINUTES)') $(if $(SEED),--seed '$(SEED)') $(ARGS)

.PHONY: ab
ab: tools ## Run two experiments in turn and compare: A=<experiment> WITH=<experiment> (docs/comparing.md)
	@$(KAIROSCOPE) ab '$(A)' '$(WITH)' --target '$(TARGET)' $(SCALE) $(SERVED) $(ARGS)

.PHONY: bakeoff
bakeoff: tools ## Deploy, load, kill and destroy every system in turn on the same sensors: one table (ONLY=, SENSORS=, DURATION=, MINUTES=, QUICK=1; docs/systems.md)
	@$(KAIROSCOPE) bakeoff --target '$(TARGET)' $(if $(ONLY),--only '$(ONLY)') $(if $(SENSORS),--sensors '$(SENSORS)') \
	  $(if $(DURATION),--duration '$(DURATION)') $(if $(MINUTES),--minutes '$(MINUTES)') \
	  $(if $(QUICK),--quick) $(ARGS)

.PHONY: trend
trend: $(VENV)/installed ## Show where figures of EXPERIMENT changed for good, over all its runs
	@$(KAIROSCOPE) trend '$(EXPERIMENT)' $(ARGS)

.PHONY: destroy
destroy: $(VENV)/installed ## End all of TARGET: its processes, or its hosts; runs, reports and backups in S3 stay (DEPLOYMENT= its name, on aws)
	@$(KAIROSCOPE) destroy --target '$(TARGET)' $(if $(DEPLOYMENT),--deployment '$(DEPLOYMENT)')

.PHONY: operate
operate: $(VENV)/installed ## Day two: VERB=rolling-restart|add-storage|replace|backup|… on TARGET (docs/operations.md)
	@$(if $(VERB),,echo "VERB= which? .venv/bin/kairoscope operate --help" >&2; exit 2)
	@$(KAIROSCOPE) operate '$(VERB)' \
	  $(if $(filter $(SHAPING),$(VERB)),$(SCALED) $(HOSTS),--target '$(TARGET)') \
	  $(if $(filter replace upgrade,$(VERB)),$(HOSTS)) \
	  $(if $(filter upgrade-scylla,$(VERB)),$(if $(SCYLLA),--scylla '$(SCYLLA)') $(if $(KEY),--repository-key '$(KEY)')) \
	  $(if $(LIMIT),--limit '$(LIMIT)') $(if $(TO),--to '$(TO)') $(if $(FROM),'$(FROM)') $(ARGS)

.PHONY: rotate
rotate: $(VENV)/installed ## Replace what TARGET's servers prove themselves with (WHAT=certificates|ca|passwords|rest)
	@$(KAIROSCOPE) rotate '$(WHAT)' --target '$(TARGET)'

.PHONY: lab-down
lab-down: $(VENV)/installed ## End the lab's hosts and remove everything of them (make destroy TARGET=lab)
	@$(KAIROSCOPE) destroy --target lab

##@ Develop
.PHONY: setup
setup: tools ## Install what is missing: virtual environment, Java 17, Maven, run-time bundles
	@$(KAIROSCOPE) bundles $(if $(filter-out local,$(TARGET)),--with-java)

# What is looked at before there is a package; `ab` has its experiments elsewhere.
GIVEN = $(foreach name,TARGET EXPERIMENT VERB SENSORS RATE DURATION PROTOCOL ENGINE SCYLLA MONITORING INVENTORY ACCOUNT BACKEND \
  $(if $(filter ab,$(MAKECMDGOALS)),A WITH),'$(name)=$($(name))')
READY_FOR = $(if $(filter demo deploy search,$(MAKECMDGOALS)),deploy,$(if $(filter ab bakeoff faults,$(MAKECMDGOALS)),series,setup))

# What can refuse refuses first; `deploy` then refuses what takes the plan to know, and builds bundles itself.
.PHONY: ready
ready:
	@scripts/ready 'java maven $(NEEDS_$(TARGET))' $(READY_FOR) $(GIVEN)

.PHONY: tools
tools: ready $(VENV)/installed
	@scripts/need java maven $(NEEDS_$(TARGET))

# One worker for each of the layers that wait for servers; the unit tests fill the gaps. In CI each
# test has a line, so that one that hangs is known by its name.
PYTEST = $(BIN)/python -m pytest $(if $(CI),-v) --durations=20 --dist loadgroup --no-loadscope-reorder

# A record of what was run for a release, by its name; with ARGS it may be of one test alone, which is none.
JUNIT = --junitxml=.kairoscope/tests/$(if $(ARGS),part,$@$(if $(ONLY),-$(ONLY))).xml

.PHONY: test
test: test-needs ## Run what fits into 20 minutes on two cores (ONLY=unit|cluster|lab|cloud for one layer, ARGS= for pytest)
	@$(PYTEST) -n $(if $(ONLY),$(if $(filter unit,$(ONLY)),2,0),3) $(JUNIT) \
	  --long=no $(if $(ONLY),tests/$(ONLY)) $(ARGS)

# What kinds of it need beside what all do.
LONG_NEEDS_panels = panels
LONG_NEEDS_alerts = strace
LONG_NEEDS_faults = strace
LONG_NEEDS_ = panels strace

.PHONY: test-long
test-long: test-needs ## Run the other tests, hours (ONLY=day_two|faults|secured|scylla|lab|aws|alerts|panels for one kind; SCYLLA= a ScyllaDB server)
	@scripts/need $(LONG_NEEDS_$(ONLY)) || true
	@$(PYTEST) -n $(if $(ONLY),0,2) $(JUNIT) --long=$(or $(ONLY),all) $(ARGS)

CAN_LAB = $(BIN)/python -c 'from kairoscope.targets import lab; lab.check()' 2>/dev/null

# Without a lab, Terraform or Prometheus the tests that need it are skipped, or fail in CI.
.PHONY: test-needs
test-needs: setup
	@scripts/need ssh
	@if [ "$$(id -u)" -eq 0 ] && scripts/need lab && $(CAN_LAB); then $(KAIROSCOPE) bundles --with-java; fi
	@scripts/need terraform || true
	@$(KAIROSCOPE) bundles --with-monitoring || true

.PHONY: dashboards
dashboards: $(VENV)/installed ## Write Grafana's dashboards anew, of dashboards/grafana/boards.yml
	@$(BIN)/python dashboards/grafana/make.py

.PHONY: bench
bench: $(VENV)/installed ## Measure loader and queue, beside a baseline each (ONLY=rest|telnet|pacing|million|coalescing|synced|sustained|warm|sixty, or beside BESIDE=<another checkout, set up>)
	@BESIDE='$(BESIDE)' $(BIN)/python -m bench $(ONLY)

.PHONY: lint
lint: $(VENV)/installed ## Run every linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/holes.py
	$(BIN)/yamllint --strict .
	cd ansible && LC_ALL=C.UTF-8 PATH="$(CURDIR)/$(BIN):$$PATH" ../$(BIN)/ansible-lint --offline --strict
	$(BIN)/shellcheck scripts/need scripts/ready scripts/narrate .ci/run
	@$(MAKE) lint-terraform

.PHONY: lint-terraform
lint-terraform: $(VENV)/installed $(CHECKOV_VENV)/installed # the part of `make lint` that is about terraform/
	@scripts/need terraform
	$(TERRAFORM) fmt -check -diff -recursive
	@mkdir -p .kairoscope
	@$(TERRAFORM) init -backend=false -input=false -lockfile=readonly > .kairoscope/terraform-init.log \
	  || { cat .kairoscope/terraform-init.log >&2; exit 1; }
	$(TERRAFORM) validate
	$(CHECKOV_VENV)/bin/checkov --config-file terraform/.checkov.yaml

.PHONY: format
format: $(VENV)/installed ## Format the Python code
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .

.PHONY: release
release: $(VENV)/installed ## Make release VERSION=x.y.z of this commit: record, commit, tag (RAN= JUnit files or texts that say what was run)
	@$(if $(VERSION),,echo "VERSION= which? Such as 0.2.0" >&2; exit 2)
	@scripts/need java maven
	@$(BIN)/python scripts/release.py '$(VERSION)' $(RAN)

.PHONY: clean
clean: ## Remove what was built: virtual environment, bundles (destroy first); runs and backups stay
	@for home in .kairoscope "$${KAIROSCOPE_HOME:-.kairoscope}"; do for there in local lab aws/plan.json; do \
	  target=$${there%%/*}; if [ ! -e "$$home/$$there" ]; then continue; fi; \
	  echo "target $$target is still deployed ($$home/$$target): make destroy TARGET=$$target first" >&2; exit 1; \
	done; done
	rm -rf $(VENV) $(CHECKOV_VENV) .kairoscope/{bundles,lab-base,terraform-lint,terraform-init.log,terraform.rc,tests} \
	  tests/panels/node_modules kairosdb-conf/*/target kairosdb-conf/bundles/*/target

.PHONY: help
help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile
	@printf '\nTARGET=%s EXPERIMENT=%s; SENSORS=, RATE= (points/s each), DURATION= (s) scale an experiment, PROTOCOL= changes how it sends, ENGINE= what stores, SCYLLA= whose server (docs/scylla.md).\n' '$(TARGET)' '$(EXPERIMENT)'
	@printf 'make ends with status 0 or 2; `.venv/bin/kairoscope load` with 0 pass, 1 fail, 2 invalid or incomplete.\n'

# A verb that is none: the ones there are.
.DEFAULT:
	@echo "error: make $@: there is no such verb. There are:" \
	  $$(awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {print $$1}' Makefile) >&2
	@exit 2

# Not one that was made in another folder, as that of a clone that was moved or copied, or by a Python
# that an upgrade has taken away: nothing in it runs, or the other clone's code does. It is made anew.
sound = $(shell grep -q ' $(CURDIR)/$(1)$$' $(1)/pyvenv.cfg && $(1)/bin/python -c 'import pip' 2>/dev/null && echo yes)
.PHONY: $(foreach venv,$(VENV) $(CHECKOV_VENV),$(if $(wildcard $(venv)/installed),$(if $(call sound,$(venv)),,$(venv)/installed)))

# Everything pinned, with checksums; done anew when a pin changes. By one make at a time, whose lock is
# the Makefile itself: another one waits, and then looks again. Not under what runs by the programs
# that are there: a series begins each of its steps by them. Who cannot read a lock cannot ask it.
ifndef ALONE
$(VENV)/installed: requirements.lock pyproject.toml scripts/need
	@exec 9<>Makefile; flock -n 9 || { echo 'another make sets up in this folder: waiting for its end …'; flock 9; }; \
	$(MAKE) --silent ALONE=yes $@
else
$(VENV)/installed: requirements.lock pyproject.toml scripts/need
	@for lock in {.kairoscope,"$${KAIROSCOPE_HOME:-.kairoscope}"}/*/{change,series,load}.lock; do \
	  [ ! -r "$$lock" ] || flock -n -E 75 "$$lock" true || [ $$? -ne 75 ] || { \
	    echo "error: $(VENV) has to be made anew, and a command runs by it ($$lock is held). Wait for its end." >&2; exit 1; }; \
	done
	@scripts/need python
	@scripts/ready '' setup $(GIVEN)
	@"$$(scripts/need --print-python)" -m venv --clear $(VENV)
	@# Without bytecode of all files, which is much of pip's time: Python makes it of those that it reads.
	@scripts/narrate 'installing Python packages into $(VENV), one to three minutes' $(VENV)/install.log \
	  $(BIN)/pip install --disable-pip-version-check --no-compile --require-hashes -r requirements.lock
	@scripts/narrate 'installing Kairoscope into $(VENV)' $(VENV)/install-own.log \
	  $(BIN)/pip install --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@
endif

# In a virtual environment of its own: checkov pins versions of what Kairoscope uses too.
$(CHECKOV_VENV)/installed: requirements-checkov.lock
	@scripts/need python
	@"$$(scripts/need --print-python)" -m venv --clear $(CHECKOV_VENV)
	@scripts/narrate 'installing checkov into $(CHECKOV_VENV), about a minute' $(CHECKOV_VENV)/install.log \
	  $(CHECKOV_VENV)/bin/pip install --disable-pip-version-check --no-compile --require-hashes -r requirements-checkov.lock
	@touch $@
