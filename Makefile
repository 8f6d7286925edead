# The whole set-up of a fresh machine is two commands: `make serve` and `make test`.
# Nothing is decided here: each target is one call of a script in tools/ or of a program in .venv.

VENV := .venv
BIN := $(VENV)/bin
RUN = py=$$(tools/find-python) && exec "$$py"

.DEFAULT_GOAL := help
.PHONY: help install clis serve cluster web check format test test-long test-stress test-kills test-portable drift bench screenshots coverage rules lock clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

install: ## make .venv with every dependency, by hash, and the command .venv/bin/fairlead
	@$(RUN) -m tools.install

clis: ## fetch what the tests drive into a cache outside the clone: real Claude Code CLIs, front ends, a browser
	@py=$$(tools/find-python) && for tool in clis agent_sdks acp_agents acp_clients happy_wire browser cloudcli_app vscode_server agui_sdks mcp_client api_judges; do "$$py" -m tools.$$tool || exit 1; done

serve: install ## install, build the web UI, then start the gateway; ARGS="--port 8000" passes options on
	@($(RUN) -m tools.web) || echo "web: the UI is not built; the gateway says so on its front page, and all else works"
	@exec $(BIN)/fairlead serve $(ARGS)

cluster: install ## three NATS servers and two gateways with the demo agent on this machine, until Ctrl-C
	@exec $(BIN)/python -m tools.cluster

web: ## build the web UI where its sources changed; needs npm, and says so where there is none
	@$(RUN) -m tools.web

check: install ## lint, formatting, types, and who may import whom
	@$(RUN) -m tools.check

format: install ## let ruff write the formatting and the easy fixes
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

test: ## install what tests need and run them all; PARTS="unit cli" picks some
	@$(RUN) -m tools.test $(PARTS)

test-stress: install clis ## parts of the tests in a random order on a busy machine, ten times; ARGS="--runs 1 unit" for less
	@$(BIN)/python -m tools.test_stress $(ARGS)

test-long: install clis web ## the long forms, with a new seed; the result is kept in tests/long-result.json
	@$(BIN)/python -m tools.test_long

test-kills: install ## kill the gateway 10,000 times; the result is kept in tests/kill-result.json; ARGS=--continue goes on
	@$(BIN)/python -m tools.test_kills $(ARGS)

test-portable: ## unit, process and fault tests with the code that other systems than Linux use
	@$(RUN) -m tools.test install portable

drift: install ## run the scenarios on one more version of Claude Code and keep the result: VERSION="2.1.200"
	@$(BIN)/python -m tools.drift $(VERSION)

bench: install ## measure beside peers in the same run, and print ratios
	@exec $(BIN)/python bench/run.py $(ARGS)

screenshots: install web ## take the pictures of the web UI in docs/pictures again; needs a Chromium (`make clis`)
	@PYTHONPATH=tests:. tools/innet $(BIN)/python -m browser.screenshots

coverage: ## run the unit tests under coverage and check the floor of the core rooms
	@$(RUN) -m tools.test install coverage

rules: install ## which rules of the seeds the last test run showed; ARGS=--verbose prints their text
	@$(BIN)/python -m tools.rules $(ARGS)

lock: install ## resolve the dependencies anew and write the lock files
	$(BIN)/uv pip compile pyproject.toml --group dev --universal --python-version 3.11 --generate-hashes --no-header --upgrade --quiet -o requirements.lock
	$(BIN)/uv pip compile tools/uv.in --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --upgrade --quiet -o tools/uv.lock.txt
	$(BIN)/uv pip compile tools/build.in --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --upgrade --quiet -o tools/build.lock.txt
	$(BIN)/uv pip compile tools/api-judges/requirements.in --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --upgrade --quiet -o tools/api-judges/requirements.lock.txt
	$(BIN)/uv pip compile tools/mcp-client/requirements.in --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --upgrade --quiet -o tools/mcp-client/requirements.lock.txt

clean: ## remove everything that was made inside the clone
	rm -rf $(VENV) build dist web/node_modules src/fairlead/web_dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage .coverage.*
	find src tests tools -name __pycache__ -type d -exec rm -rf {} +
