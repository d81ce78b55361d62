# weft: `make help` lists what can be made.
#
# Nothing here is needed to build: CGO_ENABLED=0 go build -o bin/ ./cmd/...

VERSION ?= 0.1.0-dev
COMMIT  ?= $(shell git rev-parse HEAD 2>/dev/null)
PREFIX  ?= /usr/local
DESTDIR ?=
# where the programs of this repository are, for those who want only some
PKG     ?= ./...
# how long make fuzz spends on each target
FUZZTIME ?= 20s

# what make benchmarks measures, and where it is not the usual number of rounds
BENCHES := fib nat64 nat64-stateful pseudowire lns offload sim
ROUNDS-lns := 3
# packages whose tests are pure or nearly so: make check runs them
PURE    := ./fib/... ./schedule/... ./wire/... ./internal/archtest ./internal/config/... ./internal/feature/... \
  ./internal/importer/... ./internal/noun/... ./internal/plan/... ./internal/reconcile/... ./internal/state/... \
  ./internal/store/... ./internal/syslog/... ./internal/translate/... ./tools/configdoc ./tools/repository

# packages whose tests take longest: make test begins with them
LONG    := ./internal/lab ./internal/datapath/... ./internal/daemon

GO      ?= go
LDFLAGS := -s -w -X weft/internal/version.number=$(VERSION) -X weft/internal/version.commit=$(COMMIT)

# The commit is set above, so Go need not ask git, which refuses a checkout of
# another user.
export GOFLAGS += -buildvcs=false
export CGO_ENABLED ?= 0
export CLANG ?= clang-19

.DEFAULT_GOAL := help

help: ## Say what can be made
	@echo "weft: make TARGET, where TARGET is"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build bin/weft and its helper bin/weft-bus, static programs
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

demo: build ## Run a demonstration: an IPv6-only host reaches an IPv4-only one (root)
	@test "$$(id -u)" = 0 || { echo "make demo makes network namespaces, which needs root: sudo make demo" >&2; exit 1; }
	bin/weft lab run nat64

check: style ## Check what needs only Go: formatting, vet, staticcheck, pure packages' tests
	$(GO) tool staticcheck ./...
	$(GO) test $(PURE)
	$(GO) test -run 'TestTheGuidePrints' ./tools/example

test: ## Run every test, after installing what the tests need (root)
	tools/setup.sh test
	@$(MAKE) --no-print-directory modules style
	$(GO) run ./tools/testreport -p 2 $(if $(filter ./...,$(PKG)),$(LONG)) $(PKG)

modules: ## Fetch the Go modules; retry if that fails
	@for pause in 5 20 60 0; do \
	  $(GO) mod download && exit 0; \
	  test $$pause = 0 || { echo "go mod download failed, trying again in $$pause s" >&2; sleep $$pause; }; \
	done; echo "go mod download failed four times" >&2; exit 1

lint: style ## Check the formatting, go vet, and that generated files are up to date
	$(GO) test -count=1 ./tools/generated ./tools/configdoc

style: ## Check the formatting, and go vet
	@wrong=$$(gofmt -l $$(ls -d */ | grep -v '^build/\|^bin/')); \
	  test -z "$$wrong" || { echo "not formatted (gofmt -w does it):"; echo "$$wrong"; exit 1; }
	$(GO) vet ./...

generate: ## Rebuild what is generated: eBPF objects, Go types, reference, manual
	tools/setup.sh generate
	$(GO) run ./tools/constants bpf .
	$(GO) generate ./...
	$(GO) run ./tools/configdoc docs/reference

fuzz: ## Feed every parser random bytes, FUZZTIME each (default 20s)
	tools/fuzz.sh $(FUZZTIME)

prove: ## Long proofs: mutants, fuzzing, races in labs, kills; docs/proofs/ gets the results (root)
	tools/setup.sh test
	tools/setup.sh prove
	tools/prove.sh docs/proofs

bench: build ## Compare weft with other programs (root; minutes)
	tools/setup.sh bench
	bin/weft bench nat64

benchmarks: build ## Measure again what docs/benchmarks/ shows (root; half an hour, on an idle machine)
	tools/setup.sh bench
	mkdir -p build
	tools/salabim.sh
	$(MAKE) --no-print-directory $(BENCHES:%=benchmark-%)

# one bench, with its table and its chart
benchmark-%:
	bin/weft bench $* $(if $(ROUNDS-$*),--rounds $(ROUNDS-$*)) --json > build/$*.json
	mv build/$*.json docs/benchmarks/$*.json
	bin/weft bench report < docs/benchmarks/$*.json > docs/benchmarks/$*.txt
	bin/weft bench chart < docs/benchmarks/$*.json > docs/benchmarks/$*.svg

pictures: ## Take the pictures in docs/ again, in headless Chromium
	tools/setup.sh test
	$(GO) run ./tools/pictures docs/guides

man: build ## Write the manual pages into build/man
	rm -rf build/man
	SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null)} bin/weft man build/man

install: build ## Install the programs, the manual, completions and the unit
	packaging/install.sh bin/weft "$(DESTDIR)" "$(PREFIX)" /etc/systemd/system

uninstall: ## Remove what make install has installed; /etc/weft stays
	packaging/uninstall.sh "$(DESTDIR)" "$(PREFIX)" /etc/systemd/system

deb: build ## Make the Debian package, build/weft_VERSION_ARCHITECTURE.deb
	SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || date +%s)} \
	  packaging/deb.sh bin/weft $(VERSION) build

clean: ## Remove what make has made
	rm -rf bin build

.PHONY: help build demo check test prove modules lint style generate fuzz bench benchmarks pictures man install uninstall deb clean
