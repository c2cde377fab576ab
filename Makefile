# spool: every command that people and CI run. `make` lists them.
GO ?= go
GOFMT ?= $(shell $(GO) env GOROOT)/bin/gofmt
FUZZTIME ?= 10s
SECONDS ?= 60

# Packages whose tests pull in a validator of APIs, a browser or a metrics server.
heavy = /server(/|$$)|/httpbroker|/spoolprom|/spoolotel

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Watch jobs survive kill -9, with a table at the end
	$(GO) run ./cmd/spool demo

.PHONY: test
test: redis languages fmt-check vet staticcheck test-bench ## The fast loop: format, vet, linter, tests (under 3 minutes; clusters, failovers and lost replies of Redis, and other systems, are left to make check)
	$(GO) test -short -shuffle=on -p 4 ./...

.PHONY: test-bench
test-bench: # the module that measures peers; it needs Linux, and no server and no C compiler for this
	@[ "$$($(GO) env GOOS)" = linux ] || { echo "bench/ needs Linux: it is not tested here"; exit 0; }; \
	cd bench && export CGO_ENABLED=0 && $(GO) vet ./... && $(GO) test -shuffle=on ./...

.PHONY: redis
redis: ## Install the Redis server that tests start, where there is none (Debian)
	.ci/redis

.PHONY: languages
languages: ## Install python3, node and curl, which run examples, where they are missing (Debian)
	.ci/languages

.PHONY: filesystems
filesystems: # what makes the file systems whose power the tests cut (Debian, as root)
	.ci/filesystems

.PHONY: browser
browser: ## Install the Chromium that the tests of the dashboard drive, where there is none (Debian)
	.ci/browser

.PHONY: race
race: redis languages ## Every test under the race detector (needs a C compiler)
	@command -v $${CC:-$$($(GO) env CC)} >/dev/null || { echo "make race: the race detector needs a C compiler (gcc or clang) and there is none; install gcc" >&2; exit 1; }
	CGO_ENABLED=1 $(GO) test -race -shuffle=on -timeout 20m ./...

.PHONY: check
check: ## All that CI runs (under 25 minutes on 2 cores)
	.ci/run

.PHONY: lint
lint: fmt-check vet vet-others staticcheck ## Format, vet (three systems) and staticcheck

.PHONY: staticcheck
staticcheck: # the linter
	$(GO) tool staticcheck ./...

.PHONY: fmt
fmt: ## Format the code
	$(GOFMT) -w $$(git ls-files -co --exclude-standard '*.go')

.PHONY: fmt-check
fmt-check: # is the code formatted?
	@bad=$$($(GOFMT) -l .) || exit 1; [ -z "$$bad" ] || { echo "not formatted (make fmt mends it):"; echo "$$bad"; exit 1; } >&2

.PHONY: vet
vet: # go vet here
	$(GO) vet ./...

.PHONY: vet-others
vet-others: # as darwin and windows see the code: go vet, and of what needs much for its tests that it compiles
	GOOS=darwin GOARCH=arm64 CGO_ENABLED=0 $(GO) build ./...
	GOOS=darwin GOARCH=arm64 CGO_ENABLED=0 $(GO) vet $$($(GO) list ./... | grep -vE '$(heavy)')
	GOOS=windows GOARCH=amd64 CGO_ENABLED=0 $(GO) build ./...
	GOOS=windows GOARCH=amd64 CGO_ENABLED=0 $(GO) vet $$($(GO) list ./... | grep -vE '$(heavy)')

.PHONY: build
build: ## Build ./bin/spool
	$(GO) build -o bin/spool ./cmd/spool

.PHONY: bench
bench: ## Measure this machine, with the raw disk beside it (JSON)
	$(GO) run ./cmd/spool bench --json

.PHONY: bench-peers
bench-peers: ## Measure spool beside its peers, 15 minutes; FLAGS=-quick: 3
	bench/run.sh -page docs/performance.md $(FLAGS)

.PHONY: bench-redis
bench-redis: ## Measure spool on Redis beside asynq and the bare server, 4 minutes; FLAGS=-quick: 1
	bench/run.sh -redis -page docs/performance.md $(FLAGS)

.PHONY: torture
torture: ## Kill processes at random for SECONDS=60 and compare all that was acknowledged
	$(GO) run ./cmd/spool torture --seconds $(SECONDS)

.PHONY: proof
proof: redis filesystems ## Every proof of docs/proof.md at full size
	.ci/proof

.PHONY: fuzz
fuzz: ## Every fuzz target for FUZZTIME=10s
	@set -e; for pkg in $$($(GO) list ./...); do \
		for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "fuzz $$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$pkg; \
		done; done
