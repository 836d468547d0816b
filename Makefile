SHELL := /bin/bash
DENO := $(CURDIR)/.deno/deno
export DENO_DIR := $(CURDIR)/.deno/cache
export DENO_NO_UPDATE_CHECK := 1
PREFIX ?= /usr/local
OUT ?= dist
ROLES := sbx-service sbx-process sbx-gateway sbx-admin sbx-mcp-aggregator sbx-mcp sbx-tray

.DEFAULT_GOAL := help

.PHONY: help demo test unit e2e test-agents test-arm64 test-ci test-docker test-faults test-hosts test-http test-kvm test-large test-many test-packages test-sdk test-slurm test-swift test-vms sdk sdk-packages sdk-tools setup deps check fmt bench bench-compare mutate test-fleet engines build dylib install deb packages apt-repo pkg release clean image docs

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: setup deps image ## a program in a VM, and its record; installs what is missing
	@scripts/demo.sh

# What each change is tested with; ten minutes on two idle cores. Two of its files boot VMs.
test: setup deps image ## checks and tests of each change, two VMs included
	@TESTS=1 scripts/deps.sh
	@scripts/test.sh

# Everything else that boots VMs: with make test, all that CI runs.
test-vms: setup deps image ## every other test that boots VMs; 25 minutes
	@TESTS=1 scripts/deps.sh
	@scripts/test.sh vms

# Tests that need no Debian package, no image and no root. TEST=path and FILTER=name choose some of them.
unit: setup ## tests without root, packages and images; TEST=path FILTER=name
	@scripts/test.sh unit fuzz attack/host

# Tests that boot VMs; TEST and FILTER as above.
e2e: setup deps image ## tests that boot VMs; TEST=path FILTER=name
	@TESTS=1 scripts/deps.sh
	@scripts/test.sh attack/vm attack/cve e2e

# VMs on each Debian suite, with its own QEMU: COUNT cold boots and COUNT starts from a template, as root and as another user.
# Prints the table of docs/design/measurements.md; SUITES chooses some.
test-hosts: setup deps image ## VMs on each Debian suite; COUNT=20 SUITES="bookworm trixie sid"
	@scripts/contained.sh $(DENO) run -A --quiet tests/hosts/main.ts $(or $(COUNT),20) $(or $(SUITES),bookworm trixie sid)

# VMs under KVM, also on a machine without: QEMU emulates a processor with virtualization, and a Debian trixie on it, made once, runs
# the scenarios of tests/kvm within an hour. FILTER runs the ones that are too long for the list, too. Logs of a failure stay in
# .cache/kvm-logs.
test-kvm: setup deps image ## VMs under KVM in an emulated machine, as root; FILTER=name
	@scripts/contained.sh $(DENO) run -A --quiet --cached-only --no-check tests/kvm/main.ts "$(FILTER)"

# Each published agent in a VM, against a scripted provider on loopback; builds the agents' images where
# they are missing, or of older profiles or guest programs. FILTER=claude runs one.
test-agents: setup deps image ## published agents against scripted providers; FILTER=name
	@all="claude codex opencode gemini copilot qwen pi cline cn kilo"; \
	case " $$all " in *" $(FILTER) "*) chosen="$(FILTER)" ;; *) chosen=$$all ;; esac; \
	for agent in $$chosen; do \
	  made="$${SBX_HOME:-$$HOME/.sbx}/assets/$$agent.made-of"; \
	  of=$$({ grep -rh "GUEST_VERSION = " lib/machine; cat lib/config/profile/builtin/$$agent.toml; } | sha256sum); \
	  [ "$$of" = "$$(cat "$$made" 2>/dev/null)" ] || { bin/sbx image build $$agent && echo "$$of" >"$$made"; } || exit; \
	done
	@scripts/test.sh agents

# Docker in a VM: builds, networks, compose; and a Dockerfile that buildah builds in a VM. Makes the images of both profiles once.
test-docker: setup deps image ## Docker, podman and a JDK in a VM; builds of Dockerfiles
	@mkdir -p .deno/docker && cmp -s scripts/docker/package-lock.json .deno/docker/package-lock.json || \
	  { cp scripts/docker/*.json .deno/docker/ && \
	    npm ci --prefix .deno/docker --ignore-scripts --omit=optional --no-audit --no-fund --loglevel=error; }
	@scripts/test_docker_images.sh
	@scripts/test.sh docker

# kill -9 at random moments: COUNT of them while templates are made and VMs start from them, the first with SEED, and as many
# while VMs are suspended and resume (in Debian trixie where this machine cannot suspend), and of updates.
# TEST=tests/faults/suspend_test.ts runs one file alone.
test-faults: setup deps image ## kill -9 at random moments; COUNT=100 SEED=1
	@scripts/test.sh faults

# A VM of arm64 on this machine: its image (built once, five minutes where it is emulated), and a guest from boot to record.
test-arm64: setup deps image ## a VM of arm64, emulated where needed
	@scripts/deps.sh --arch arm64 && scripts/image.sh arm64
	@scripts/test.sh arm64

# What takes long: a repository with a pack of 300 MB through a VM and back, and in Debian trixie VMs that are suspended and forked, and
# attacks on a folder that is shared live; a learned profile that is minimised; three services with VMs and one receiver of a fleet.
test-large: setup deps image engines ## large repositories, suspends and forks, a small fleet
	@SBX_FLEET_ENGINES=$(CURDIR)/.deno/engines scripts/test.sh large

# The fleet: hunts on every engine compared, faults, many machines. Needs no VM. SEED=N chooses other events.
test-fleet: setup engines ## hunts on every engine, faults, many machines; SEED=N
	@scripts/nats.sh .cache/nats
	@SBX_FLEET_ENGINES=$(CURDIR)/.deno/engines SBX_NATS_SERVER=$(CURDIR)/.cache/nats/usr/sbin/nats-server scripts/test.sh fleet

# DuckDB and chdb beside sbx, in the versions of scripts/engines; 600 MB.
engines: ## DuckDB and chdb beside sbx, 600 MB
	@mkdir -p .deno/engines && cmp -s scripts/engines/package.json .deno/engines/package.json || \
	  { cp scripts/engines/*.json .deno/engines/ && npm install --no-save --prefix .deno/engines --ignore-scripts --no-audit --no-fund --loglevel=error; }

# The SDKs: their tools (scripts/sdk) in .deno/sdk, their types from schemas/api.v1.json, and the npm package's JavaScript in
# sdk/typescript/dist. docs/guides/sdk.md
sdk: sdk-packages ## types and JavaScript of the SDKs
	@$(DENO) run -A --quiet scripts/sdk_types.ts
	@$(MAKE) -s sdk-tools

sdk-packages: setup ## npm packages that make the SDKs, 300 MB
	@mkdir -p .deno/sdk && cmp -s scripts/sdk/package-lock.json .deno/sdk/package-lock.json || \
	  { cp scripts/sdk/*.json .deno/sdk/ && npm ci --prefix .deno/sdk --no-audit --no-fund --loglevel=error; }

sdk-tools: sdk-packages ## JavaScript of the SDK, and what its tests run in
	@node .deno/sdk/node_modules/typescript/bin/tsc -p sdk/typescript

# Both SDKs against a real service, in Node, Deno, Bun and Python.
test-sdk: setup deps image sdk-tools ## both SDKs: Node, Deno, Bun, Python
	@scripts/test.sh sdk

# 50 creates at once in the queue of one machine, and 20 patches judged in copies of one VM by each SDK, beside 20 VMs of their own,
# from a template and booted; the figures are shown at the end. COUNT=N makes fewer.
test-many: setup deps image ## 50 creates at once, 20 patches in copies; COUNT=N
	@rm -rf .cache/figures
	@scripts/test.sh many
	@cat .cache/figures/*.json

# sbx under Slurm: munge, a controller and two nodes of Debian on loopback, all without root, with VMs in their jobs. Installs the
# packages.
test-slurm: setup deps image ## VMs in jobs of Slurm, two nodes on loopback
	@SLURM=1 scripts/deps.sh
	@scripts/test.sh slurm

# scripts/ci.sh to its end in a bookworm of its own (.cache/roots), with the packages that run VMs alone, as a user without sudo.
test-ci: setup deps image ## the script of build servers in a bare Debian, as root
	@scripts/test.sh bare

# What the HTTP servers of Debian take for a request, compared with what a relay of other protocols lets through; installs the
# servers. COUNT and SEED choose other bytes.
test-http: setup ## HTTP servers of Debian against the relay; COUNT=N SEED=N
	@HTTP_SERVERS=1 scripts/deps.sh
	@scripts/test.sh http

# Packages made here, installed, upgraded and purged in a clean bookworm and trixie from an apt repository made here, with VMs in
# between; a company's package; two builds compared. As root; SUITES chooses some.
test-packages: setup deps image ## install, upgrade and purge packages, as root; SUITES=…
	@PACKAGES=1 scripts/deps.sh
	@scripts/contained.sh $(DENO) run -A --quiet tests/packages/main.ts $(or $(SUITES),bookworm trixie)

# The Swift library of ffi/SbxVM: compiled in Debian trixie, as root; driven by Deno, also with the address sanitizer; the types of
# its half for macOS; a VM's life through it. Skipped with a line where the compiler cannot be had, unless SBX_REQUIRE_SWIFT=1.
test-swift: setup deps image ## the library for macOS, compiled on Linux, as root
	@scripts/test_swift.sh

# Deno, its cache, bin/ and the desktop page: everything that runs from source.
setup: ## Deno, its cache, bin/ and the desktop page
	@scripts/deno.sh
	@scripts/cache.sh
	@scripts/launchers.sh
	@scripts/desktop.sh

# Debian packages for images and machines.
deps: ## Debian packages for images and VMs
	@scripts/deps.sh

# The guest image of the profile `code`, built once; `sbx update` installs what changed.
image: setup deps ## the guest image, built once
	@scripts/image.sh

check: setup ## types, lint and format
	@$(DENO) task --quiet check

fmt: setup ## format everything
	@$(DENO) fmt --quiet

bench: setup deps image ## every benchmark
	@$(DENO) task --quiet bench

# The fast benchmarks of this checkout and of a commit, in turns; fails where one is worse by over 5 % in every round.
# BENCH chooses some of them.
bench-compare: setup ## fast benchmarks against a commit; BASE=… BENCH=… ROUNDS=5
	@$(DENO) run -A --quiet --cached-only tests/bench/compare/main.ts --rounds $(or $(ROUNDS),5) $(BASE) $(BENCH)

# Mutations of the code that its unit tests should notice; NOUN=… and COUNT=… choose fewer.
mutate: setup ## mutations that unit tests should notice; NOUN=dns COUNT=20
	@$(DENO) run -A --quiet scripts/mutate.ts --count $(or $(COUNT),300) $(NOUN)

docs: setup ## regenerate docs/reference and schemas
	@$(DENO) run -A scripts/docs.ts

# One program in $(OUT), and its roles as symlinks to it; scripts/build.ts says what makes two builds equal. DENORT_BIN, where
# it is set, names the runtime that deno compile puts in front, and DENO_COMPILE another Deno to compile with.
# BUILD_VERSION stamps another version than that of deno.json.
build: setup ## one program in dist/, with its roles as symlinks
	@$(DENO) run -A --quiet --cached-only scripts/build.ts --out "$(OUT)" $(if $(BUILD_VERSION),--version "$(BUILD_VERSION)")

install: build ## build, and install below PREFIX=/usr/local
	@install -d "$(DESTDIR)$(PREFIX)/bin" && install -m 0755 "$(OUT)/sbx" "$(DESTDIR)$(PREFIX)/bin/sbx"
	@for role in $(ROLES); do ln -sfn sbx "$(DESTDIR)$(PREFIX)/bin/$$role"; done

# The Debian package in $(OUT), with its SBOM; ARCH=arm64 for another architecture, PROGRAM and RUNTIME for a program that is
# built already. docs/guides/packages.md
deb: setup ## the Debian package in dist/; ARCH=arm64
	@$(DENO) run -A --quiet --cached-only scripts/deb.ts --out "$(OUT)" $(if $(ARCH),--arch $(ARCH)) \
	  $(if $(BUILD_VERSION),--version "$(BUILD_VERSION)") $(if $(PROGRAM),--program "$(PROGRAM)") $(if $(RUNTIME),--runtime $(RUNTIME))

# The same for other distributions: an rpm, a tarball with its installer, PKGBUILD and sbx.nix, which get the tarball from URL.
packages: setup ## .deb, rpm, tarball, PKGBUILD and sbx.nix in dist/
	@$(DENO) run -A --quiet --cached-only scripts/deb.ts --out "$(OUT)" --others $(if $(URL),--url "$(URL)") \
	  $(if $(ARCH),--arch $(ARCH)) $(if $(BUILD_VERSION),--version "$(BUILD_VERSION)") \
	  $(if $(PROGRAM),--program "$(PROGRAM)") $(if $(RUNTIME),--runtime $(RUNTIME))

# The packages of $(OUT) in an apt repository in $(OUT)/apt, signed by the secret key in the file KEY.
apt-repo: setup ## an apt repository of dist/, signed by KEY=FILE
	@test -n "$(KEY)" || { echo "apt-repo: KEY=FILE names the secret OpenPGP key" >&2; exit 2; }
	@bin/sbx-admin package repository "$(OUT)/apt" "$(OUT)"/*.deb --key "$(KEY)"

# On a Mac: the library that runs its VMs, in bin/; Deno gets the entitlement to use it. docs/design/macos.md
dylib: setup ## on a Mac: the library that runs its VMs
	@scripts/dylib.sh bin/libsbxvm.dylib

# The installer for macOS: FLAGS="--application … --installer … --profile …", with --dry-run to see the commands anywhere.
pkg: setup ## the installer for macOS; FLAGS=…
	@$(DENO) run -A --quiet --cached-only scripts/pkg.ts --out "$(OUT)" $(FLAGS)

# A release of the tag vVERSION, from preflight to publication; RELEASE_FLAGS as scripts/release/main.ts says.
# docs/guides/packages.md
release: setup ## a release of the tag vVERSION
	@test -n "$(VERSION)" || { echo "release: VERSION names the tag, without its v" >&2; exit 2; }
	@$(DENO) run -A --quiet --cached-only scripts/release/main.ts "$(VERSION)" $(RELEASE_FLAGS)

clean: ## remove bin, dist and .cache
	@rm -rf bin dist .cache
