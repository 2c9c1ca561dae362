# Everything runs from .venv, which the first command makes; nothing outside the repository is changed.
# `make` alone lists the commands. PYTHON=... chooses the interpreter.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:

export UV_SYSTEM_CERTS := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

RUN := .venv/bin/python
PIP := -m pip install -q --no-input --require-hashes
# What lies at the top is installed as it is; its build backend is in the locks, so nothing without a hash is fetched.
EDITABLE := -m pip install -q --no-input --no-deps --no-build-isolation --no-index -e .
WORKERS ?= auto

find_python = for p in $$PYTHON python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 \
		&& { command -v "$$p"; exit 0; }; done; \
	echo 'Python 3.11 or newer with venv is needed (Debian: apt install python3-venv; else make PYTHON=...)' >&2; exit 1

# An environment that works is kept and brought up to date; one that was interrupted in the making starts anew.
make_venv = "$1/bin/python" -m pip --version >/dev/null 2>&1 || { py=$$($(find_python)) && "$$py" -m venv --clear $1; }

.PHONY: help
help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' Makefile

# ---- environments ----

.venv/.demo: locks/demo.lock pyproject.toml
	@echo 'Setting up .venv (about half a minute the first time) ...'
	@$(call make_venv,.venv)
	@$(RUN) $(PIP) -r $<
	@$(RUN) $(EDITABLE)
	@touch $@

.venv/.dev: locks/dev.lock .venv/.demo
	@echo 'Adding the development tools to .venv (about half a minute the first time) ...'
	@$(RUN) $(PIP) -r $<
	@$(RUN) $(EDITABLE)
	@touch $@

.venv-git/.ready: locks/git-server.lock
	@echo 'Setting up .venv-git, the environment of the reference git server ...'
	@$(call make_venv,.venv-git)
	@.venv-git/bin/python $(PIP) -r $<
	@touch $@

.venv-fastmcp/.ready: locks/fastmcp-tasks.lock
	@echo 'Setting up .venv-fastmcp, the environment of a client that is not ours ...'
	@$(call make_venv,.venv-fastmcp)
	@.venv-fastmcp/bin/python $(PIP) -r $<
	@touch $@

.venv-hangar/.ready: locks/mcp-hangar.lock
	@echo 'Setting up .venv-hangar, the environment of a gate that is not ours ...'
	@$(call make_venv,.venv-hangar)
	@.venv-hangar/bin/python $(PIP) -r $<
	@touch $@

# A decision point of somebody else's, from npm; where it cannot be had, the tests say so.
.bench/cerbos/.ready: tests/bench/cerbos.py | .venv/.dev
	@$(RUN) -m tests.bench.cerbos && touch $@ || exit 0

# What the tests run from npm. Its absence is said by the tests, so a machine without npm is no failure here.
# `npm ci` would refuse the lock, because a package in it wants, on Windows only, one that is not published.
tests/node/node_modules/.ready: tests/node/package-lock.json
	@command -v npm >/dev/null 2>&1 || exit 0; \
		echo 'Setting up tests/node/node_modules, the programs from npm that the tests run ...'; \
		cd tests/node && npm install --no-save --no-progress --loglevel=error && touch node_modules/.ready

# ---- using it ----

.PHONY: demo
demo: .venv/.demo .venv-git/.ready ## run the story: AUTO=1 decides by itself, STORY=treasury tells another, FOLDER=... keeps its files there
	@exec $(RUN) -m examples.demo --end-with-parent $(if $(filter-out 0,$(AUTO)),--auto) \
		$(if $(STORY),--story '$(STORY)') $(if $(FOLDER),--folder '$(FOLDER)')

.PHONY: serve-certification
serve-certification: .venv/.demo ## serve the AuthZEN certification fixture: PORT=8401, TLS=1 for https
	@$(RUN) -m examples.certification --port $(or $(PORT),8401) $(if $(filter-out 0,$(TLS)),--tls) \
		$(if $(filter-out 0,$(DIE_WITH_STDIN)),--die-with-stdin)

.PHONY: serve-conformance
serve-conformance: .venv/.demo ## serve the fixtures of the public MCP conformance suite behind the gate: PORT=8402
	@$(RUN) -m examples.conformance_fixture --port $(or $(PORT),8402) $(if $(filter-out 0,$(DIE_WITH_STDIN)),--die-with-stdin)

.PHONY: serve-reviewer
serve-reviewer: .venv/.demo ## serve what the conformance suites are run against: PORT=8403, SERVICE_PORT=8405 for the service too, FOLDER=...
	@exec $(RUN) -m examples.reviewer --port $(or $(PORT),8403) $(if $(FOLDER),--folder '$(FOLDER)') \
		$(if $(SERVICE_PORT),--service-port $(SERVICE_PORT)) \
		$(if $(filter-out 0,$(DIE_WITH_STDIN)),--die-with-stdin)

.PHONY: simulator
simulator: SIM = $(or $(FOLDER),.simulator)
simulator: .venv/.demo ## serve a simulator to test enforcement points against: PORT=8400, FOLDER=.simulator
	@test -e '$(SIM)/arap.yaml' || .venv/bin/arap init --dev --simulator '$(SIM)' --port $(or $(PORT),8400)
	@exec .venv/bin/arap serve --config '$(SIM)/arap.yaml'

# ---- working on it ----

.PHONY: test
test: .venv/.dev .venv-git/.ready .venv-fastmcp/.ready .venv-hangar/.ready tests/node/node_modules/.ready .bench/cerbos/.ready ## run the tests; parts that this machine cannot run are named at the end
	@$(RUN) -m pytest -q -n $(WORKERS)

# The gate's tests that need no PostgreSQL run once, in the environment of `clean-gate`; the others run here.
.PHONY: check
check: .venv/.dev .venv-git/.ready .venv-fastmcp/.ready .venv-hangar/.ready tests/node/node_modules/.ready .bench/cerbos/.ready lint types imports locks-current clean-gate clean-conformance ## everything that must hold, no part left out
	@ARAP_REQUIRE=browser,cerbos,node,postgres,spin $(RUN) -m pytest -q -n 2 --ignore tests/gate
	@ARAP_REQUIRE=postgres $(RUN) -m pytest -q -n 2 tests/gate -k postgres

.PHONY: lint
lint: .venv/.dev
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .

# The migrations are scripts of two folders that may share file names, so each folder is checked by itself.
.PHONY: types
types: .venv/.dev
	@$(RUN) -m mypy
	@for scripts in alembic/env.py alembic/service alembic/gate; do \
		test ! -e $$scripts || $(RUN) -m mypy $$scripts || exit 1; done

.PHONY: imports
imports: .venv/.dev
	@$(RUN) -c 'from importlinter.cli import lint_imports_command; lint_imports_command(["--no-logo"])'

.PHONY: locks-current
locks-current: .venv/.dev
	@$(RUN) -m pytest -q -n 0 tests/test_locks.py

.PHONY: clean-gate
clean-gate: .venv/.dev
	@ARAP_REQUIRE=postgres $(RUN) -m tests.clean_gate

.PHONY: clean-conformance
clean-conformance: .venv/.dev
	@$(RUN) -m tests.clean_conformance

.PHONY: deep
deep: .venv/.dev .venv-git/.ready ## the long runs: storms, fuzzing, saboteurs; writes docs/evidence
	@$(RUN) -m tests.deep

.PHONY: cerbos
cerbos: .venv/.dev ## install the decision point that the tests stand behind, by its digest
	@$(RUN) -m tests.bench.cerbos

.PHONY: node-programs
node-programs: tests/node/node_modules/.ready ## install what the tests run from npm

.PHONY: requirements
requirements: .venv/.dev ## one line: how many rules of the catalogue are tested, open, in all
	@$(RUN) -m tests.requirements

.PHONY: bench
bench: .venv/.dev .venv-fastmcp/.ready .venv-hangar/.ready ## the benchmarks, one JSON object a line
	@$(RUN) -m tests.bench

.PHONY: lock
lock: .venv/.dev ## resolve the dependencies again and write the locks
	@$(RUN) -m tests.locks

.PHONY: screenshots
screenshots: .venv/.dev ## take the pictures of docs/desk.md anew
	@ARAP_SCREENSHOTS=1 $(RUN) -m pytest -q -n 0 tests/browser/test_states.py tests/browser/test_states_changing.py

.PHONY: assets
assets: .venv/.dev ## fetch the style sheet and scripts of the desk from npm, by hash
	@$(RUN) -m tools.assets
