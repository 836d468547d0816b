# The two commands that matter are `make demo` and `make test`; both do all the set-up they need.
SHELL := /bin/bash
DENO := $(CURDIR)/.deno/deno
export DENO_DIR := $(CURDIR)/.deno/cache
export DENO_NO_UPDATE_CHECK := 1
PREFIX ?= /usr/local
ROLES := sbx-service sbx-process sbx-gateway sbx-admin
GUEST := pty_agent bench

.PHONY: demo test setup deps check fmt bench build install clean image docs

demo: setup deps image
	@scripts/demo.sh

test: setup deps image
	@scripts/test.sh

# Deno, its cache and bin/: everything that runs from source.
setup:
	@scripts/deno.sh
	@$(DENO) cache --quiet --frozen main.ts $$(find cmd/guest tests scripts -name '*.ts') && scripts/launchers.sh

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

docs: setup
	@$(DENO) run -A scripts/docs.ts

# One program in dist/, and its roles as symlinks to it. DENORT_BIN, where it is set, names the runtime that deno compile uses.
build: setup
	@rm -rf dist .guest && mkdir -p dist .guest
	@for name in $(GUEST); do $(DENO) bundle --quiet --minify --platform deno -o .guest/sbx-$${name//_/-}.js cmd/guest/$$name/main.ts; done
	@$(or $(DENO_COMPILE),$(DENO)) compile --quiet --no-check -A --unstable-vsock --include .guest --output dist/sbx main.ts
	@for role in $(ROLES); do ln -sfn sbx dist/$$role; done
	@rm -rf .guest

install: build
	@install -d $(DESTDIR)$(PREFIX)/bin && install -m 0755 dist/sbx $(DESTDIR)$(PREFIX)/bin/sbx
	@for role in $(ROLES); do ln -sfn sbx $(DESTDIR)$(PREFIX)/bin/$$role; done

clean:
	@rm -rf bin dist .guest .cache
