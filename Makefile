# The pinned runtime: the one in PATH if its version matches, otherwise npm's package.
BUN_VERSION := 1.4.5
BUN := $(shell [ "$$(bun --version 2>/dev/null)" = "$(BUN_VERSION)" ] && echo bun || echo npx --yes bun@$(BUN_VERSION))
# Keeps npm's own notices out of the output.
export npm_config_update_notifier := false
export npm_config_loglevel := error
COMMIT := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
# Where to get the source, for __version__: by default the public address of the repository.
SOURCE ?= $(shell git remote get-url origin 2>/dev/null | sed -nE 's|^(https://)([^/@]*@)?|\1|p')

.PHONY: help run test test-fast test-tools test-systemd check format pages build site pictures bench client python-client deb dist clean

help: ## shows this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 22

run: build ## starts a storage with sample data, and a bridge to it
	@dist/sync-bridge sandbox

test: build client ## every test, against real servers and the executable
	@BUN="$(BUN)" bash tests/run.sh

# What needs no other programs, no executable and no idle machine.
FAST := architecture.test.ts domain/ protocol/ settings/ observability/ routes/ batch/ upstream/ service/ cli/*.test.ts cli/service/ \
	$(addprefix cli/data/,backup-checks.test.ts edit-text.test.ts planned-restores.test.ts restored-items.test.ts whole-file.test.ts) spec/ client/ \
	load/ explorer/ faults/broken-reads.test.ts operate/words.test.ts operate/documentation.test.ts operate/promises.test.ts \
	clients/javascript-package.test.ts

# The runner ignores a name that no file has.
UNKNOWN := $(strip $(foreach name,$(FAST),$(if $(wildcard tests/$(name)),,$(name))))

test-fast: node_modules client ## the tests that take less than half a minute
	@[ -z "$(UNKNOWN)" ] || { echo 'FAST in the Makefile names tests that do not exist: $(UNKNOWN)'; exit 1; }
	@$(BUN) test --timeout 60000 --parallel=2 $(addprefix tests/,$(FAST))

test-tools: ## installs the programs that tests start, from Debian's packages
	@bash tests/tools.sh install

test-systemd: build ## runs the Debian package under a real systemd, as root
	@BUN="$(BUN)" bash tests/operate/real-systemd.sh

check: node_modules ## types, lint, format
	@$(BUN) check
	@node_modules/.bin/oxlint
	@$(BUN) .ci/lint-costs.ts src
	@$(BUN) fmt --check --ignore-pattern bench/RESULTS.md --ignore-pattern src/client/README.md src tests bench .ci docs/examples

format: node_modules ## formats everything
	@$(BUN) fmt --ignore-pattern bench/RESULTS.md --ignore-pattern src/client/README.md src tests bench .ci docs/examples

pages: node_modules ## all that is generated from the code, after a change of names that users see
	@for page in settings-page commands-page interface-page python-engines package-features connect-page; do $(BUN) .ci/$$page.ts || exit 1; done

build: dist/sync-bridge ## the executable

# Not minified: the framework reads the source of its handlers. The autoload flags keep the executable from running a
# bunfig.toml or reading a .env that happens to lie in the current directory.
BUILD_FLAGS := --compile --bytecode --format=esm --splitting --sourcemap=inline \
	--define process.env.NODE_ENV='"production"' --define SYNC_BRIDGE_COMMIT='"$(COMMIT)"' \
	--define SYNC_BRIDGE_SOURCE='"$(SOURCE)"' \
	--no-compile-autoload-dotenv --no-compile-autoload-bunfig

dist/sync-bridge: node_modules package.json $(shell find src docs -type f) $(wildcard *.md)
	@mkdir -p dist
	@echo "Building $@ ..."
	@$(BUN) build $(BUILD_FLAGS) --outfile=$@ src/main.ts > dist/build.log 2>&1 || { cat dist/build.log; rm -f $@; exit 1; }
	@rm -f dist/build.log dist/*.map

client: node_modules ## the JavaScript package: dist/client/, and a tarball of it for npm
	@$(BUN) .ci/javascript-client.ts dist

site: ## the guides as a static site with a front page, in dist/site/
	@command -v chromium >/dev/null || { echo 'Cannot find "chromium", which takes the screenshots: apt-get install chromium'; exit 1; }
	@$(MAKE) --no-print-directory build
	@$(BUN) .ci/site.ts dist/site "$(SOURCE)"

pictures: site ## docs/images/, after a change of the explorer
	@cp dist/site/images/explorer.png docs/images/

bench: build ## compares performance with peers, into bench/RESULTS.md; FULL=1 sends a million requests
	@FULL=$(FULL) $(BUN) bench/run.ts dist/sync-bridge

deb: node_modules ## the Debian package for this machine, in dist/
	@mkdir -p dist
	@$(BUN) .ci/release.ts deb dist $(BUILD_FLAGS)

dist: node_modules ## a release: executables for all platforms, packages, images, checksums and lists of contents
	@$(BUN) .ci/release.ts dist dist/release $(BUILD_FLAGS)

node_modules: package.json bun.lock
	@echo "Installing packages ..."
	@$(BUN) install --frozen-lockfile --no-progress --no-summary
	@touch $@

python-client: ## the Python package, as a wheel in dist/
	@mkdir -p dist
	@$(BUN) .ci/python-client.ts dist

clean: ## removes what was built and installed
	rm -rf dist node_modules
