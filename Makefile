# `make demo` and `make test` do all the set-up they need. While you work: `make unit`, `make check`, `make fmt`.
SHELL := /bin/bash
DENO := $(CURDIR)/.deno/deno
export DENO_DIR := $(CURDIR)/.deno/cache
export DENO_NO_UPDATE_CHECK := 1
PREFIX ?= /usr/local
OUT ?= dist
ROLES := sbx-service sbx-process sbx-gateway sbx-admin sbx-mcp-aggregator sbx-mcp
GUEST := $(notdir $(wildcard cmd/guest/*))

.PHONY: demo test unit e2e test-agents test-faults test-hosts test-large setup deps check fmt bench mutate build install clean image docs

demo: setup deps image
	@scripts/demo.sh

test: setup deps image
	@scripts/test.sh

# Tests that need no Debian package, no image and no root. TEST=path and FILTER=name choose some of them.
unit: setup
	@scripts/test.sh unit fuzz attack/host

# Tests that boot VMs; TEST and FILTER as above.
e2e: setup deps image
	@SBX_REQUIRE_VM=1 scripts/test.sh attack/vm e2e

# VMs on each Debian suite, with its own QEMU: COUNT cold boots and COUNT starts from a template, as root and as another user.
# Prints the table of docs/hosts.md; SUITES chooses some.
test-hosts: setup deps image
	@$(DENO) run -A --quiet tests/hosts/main.ts $(or $(COUNT),20) $(or $(SUITES),bookworm trixie sid)

# Each published agent in a VM, against a scripted provider on loopback; builds the agents' images once. FILTER=claude runs one.
test-agents: setup deps image
	@for agent in claude codex opencode gemini; do bin/sbx image list | grep -q "^$$agent  *$$agent " || bin/sbx image build $$agent || exit; done
	@SBX_REQUIRE_VM=1 scripts/test.sh agents

# kill -9 at random moments: COUNT of them while templates are made and VMs start from them, the first with SEED, and as many
# while VMs are suspended and resume (in Debian trixie where this machine cannot suspend). TEST=tests/faults/suspend_test.ts runs these alone.
test-faults: setup deps image
	@SBX_REQUIRE_VM=1 scripts/test.sh faults

# What takes long: a repository with a pack of 300 MB through a VM and back, and VMs that are suspended and forked in Debian trixie.
test-large: setup deps image
	@SBX_REQUIRE_VM=1 scripts/test.sh large

# Deno, its cache and bin/: everything that runs from source.
setup:
	@scripts/deno.sh
	@scripts/cache.sh
	@scripts/launchers.sh

# Debian packages for images and machines.
deps:
	@scripts/deps.sh

# The guest image of the profile `code`, built once; `sbx update` installs what changed.
image: setup deps
	@scripts/image.sh

check: setup
	@$(DENO) check --quiet main.ts $$(find cmd lib tests scripts -name '*.ts') && $(DENO) lint --quiet && $(DENO) fmt --quiet --check

fmt: setup
	@$(DENO) fmt --quiet

bench: setup deps image
	@$(DENO) task --quiet bench

# Mutations of the code that its unit tests should notice; NOUN=… and COUNT=… choose fewer.
mutate: setup
	@$(DENO) run -A --quiet scripts/mutate.ts --count $(or $(COUNT),300) $(NOUN)

docs: setup
	@$(DENO) run -A scripts/docs.ts

# One program in $(OUT), and its roles as symlinks to it. DENORT_BIN, where it is set, names the runtime that deno compile
# puts in front, and DENO_COMPILE another Deno to compile with: that gets a cache of its own, with the same packages in it.
# No code cache: it saves 10 ms of a start, and is read from a name in /tmp that anybody can foresee.
build: setup
	@rm -rf .guest && mkdir -p "$(OUT)" .guest .deno/compile && ln -sfn ../cache/npm .deno/compile/npm
	@for name in $(GUEST); do $(DENO) bundle --quiet --minify --platform deno -o .guest/sbx-$${name//_/-}.js cmd/guest/$$name/main.ts || exit; done && mv .guest/sbx-snapshots.js .guest/snapshots.js
	@$(DENO) cache --quiet --frozen cmd/all.ts lib/ledger/worker.ts
	@DENO_DIR=$(CURDIR)/.deno/compile $(or $(DENO_COMPILE),$(DENO)) compile --quiet --no-check --frozen --cached-only --no-code-cache -A --unstable-vsock \
	  --include .guest --include cmd/all.ts --include lib/ledger/worker.ts --output "$(OUT)/sbx" main.ts || { \
	  echo "build: deno compile failed; where it cannot download its runtime, DENORT_BIN names one" >&2; exit 1; }
	@rm -rf .guest
	@for role in $(ROLES); do ln -sfn sbx "$(OUT)/$$role"; done

install: build
	@install -d "$(DESTDIR)$(PREFIX)/bin" && install -m 0755 "$(OUT)/sbx" "$(DESTDIR)$(PREFIX)/bin/sbx"
	@for role in $(ROLES); do ln -sfn sbx "$(DESTDIR)$(PREFIX)/bin/$$role"; done

clean:
	@rm -rf bin dist .guest .cache
