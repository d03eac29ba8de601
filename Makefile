# Every CI step is a target here. `make help` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

# ----- settings for the command line -----

# The version that `cardea version` prints.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# The image of deploy and dist.
IMAGE ?= cardea:latest
# The image of image and release, without a tag: the version is the tag. PUSH also pushes it to the name given.
IMAGE_NAME ?= cardea
PUSH ?=
# Where build puts cardea and kubectl-cardea.
OUT ?= bin
# The runtime store of run: empty is SQLite in .dev, else postgres://...
STORE ?=
# The cluster of run: empty is a control plane on loopback, current the one of your kubeconfig's current context.
CLUSTER ?=
# Tests to run (go test -run) and further flags of go test.
RUN ?=
TEST_FLAGS ?=
TEST_TIMEOUT ?= 60m
# Number of packages tested in parallel; each may start a control plane.
PROCS ?= 2
# Number of inputs of each fuzz target: seconds in test, minutes in fuzz. A duration does not work: go test reports a failure if a worker is
# late at its end.
FUZZ_INPUTS ?= 50000x
FUZZ_MANY ?= 3000000x
# The parsers: bodies, cookies, tokens, keys, phones, rules, schema fields. Targets with more imports run only in
# `make fuzz`, because go test builds all imports of a target again.
FUZZ_PACKAGES = ./apiserver/httpapi/body ./apiserver/users/passkey ./apiserver/users/session ./apiserver/credential/bearer ./apiserver/users/password/foreign ./apiserver/limits/engine ./internal/apikey ./internal/daylog ./internal/phone ./internal/scheme ./internal/schemafield ./internal/totp
# Repetitions of deflake.
COUNT ?= 10
# How long each engine's soak in test-gitops lasts, such as 3m; empty: a few syncs.
SOAK ?=
BENCH ?= .
BENCH_PACKAGES ?= ./store/... ./apiserver/... ./internal/...
BENCH_DIRECTORIES = ^TestBench(Directories|GroupsOfDirectories)$$
BENCH_END_TO_END ?= go test ./test/bench -v -count=1 -run TestBench -skip '$(BENCH_DIRECTORIES)' -timeout 30m
# kubectl of install, deploy and dist: the one in PATH, otherwise the one in bin/k8s.
KUBECTL ?= $(or $(shell command -v kubectl),bin/k8s/kubectl)

# ----- other variables -----

GO_FOLDERS := $(wildcard api apiserver client cmd controllers hack internal store test)
# The listeners of the server, each with an HTTP contract, apiserver/httpapi/openapi/<listener>.yaml, and a client, client/<listener>.
LISTENERS := backend decision enduser
# What `make verify` regenerates and compares.
GENERATED := api/v1alpha1/zz_generated.deepcopy.go api/v1alpha1/applyconfiguration \
	$(foreach listener,$(LISTENERS),client/$(listener)/zz_generated.go) \
	config/crd config/schemas config/argocd config/rbac/role.yaml config/rbac/users PROJECT docs/resources.md \
	$(addprefix config/chart/cardea/,templates/crds templates/rbac templates/network-policies files)
# These packages only start processes and wait for them, so the race detector would find nothing. Exceptions: the integration tests run
# operator and server in their own process, and the message gateway stand-in has goroutines.
PROCESS_PACKAGES = $(shell go list ./hack/... ./internal/testing/... ./test/... | grep -v -e '/test/integration$$' -e '/internal/testing/messagegateway')
# Flags of go build, with those of hack/build-k8s.sh, so that both compile shared packages once. The binaries have no debug information.
BUILD_FLAGS = -trimpath -buildvcs=false -gcflags=all=-dwarf=false
# Every go command has these flags and no cgo: build, test, vet, the linters and the tests that build programs share all packages. With
# flags of its own, each would compile every dependency again. Exceptions: the race detector and Vale need cgo.
export GOFLAGS := $(strip $(filter-out $(BUILD_FLAGS),$(GOFLAGS)) $(BUILD_FLAGS))
export CGO_ENABLED := $(if $(findstring -race,$(TEST_FLAGS)),1,0)
# The compiler collects no garbage below 1 GiB, as in hack/build-k8s.sh, unless GOGC or GOMEMLIMIT say otherwise.
COMPILER = GOGC="$${GOGC:-off}" GOMEMLIMIT="$${GOMEMLIMIT:-1GiB}"
# Programs that parse every dependency collect garbage less often: a fifth less processor time.
LINTER = GOGC="$${GOGC:-400}"
# QUIET is @ if build does not print its command.
GO_BUILD = go build
QUIET =
# The control plane, or kubectl alone, unless PATH has it.
RUN_NEEDS = $(if $(CLUSTER),$(filter bin/%,$(KUBECTL)),k8s)
# The end-to-end benchmark takes long; `make bench` runs it.
TEST_PACKAGES = $(shell go list ./... | grep -v '/test/bench$$')
# Folders with their own modules, so that go.mod names only Cardea's own dependencies: the chart's tests need Helm, and the release needs
# libraries that write images. test/gitops has a module too, for the engines of Flux and Argo CD; it takes minutes, so only test-gitops runs it.
MODULES = test/chart hack/release
# Packages that take minutes start first, so that none of them runs alone at the end.
LONG_PACKAGES := $(addprefix $(shell go list -m)/,store/sqlstore apiserver/frontend/enduser test/integration apiserver/frontend/oauth test/e2e test/browser)
LONG_FIRST = $(foreach package,$(LONG_PACKAGES),$(filter $(package),$(1))) $(filter-out $(LONG_PACKAGES),$(1))
RACE_PACKAGES = $(call LONG_FIRST,$(filter-out $(PROCESS_PACKAGES),$(TEST_PACKAGES)))
PLAIN_PACKAGES = $(call LONG_FIRST,$(filter $(PROCESS_PACKAGES),$(TEST_PACKAGES)))
# These stories take several times as long under the race detector: some start a server for each statement at which they kill it, some
# compare all that can be read after each method of a transaction. test runs them without it, and test-race with it. Their packages are
# found, so that no half of test omits a new one.
PLAIN_STORIES = WhenServerIsKilled$$|^TestEveryMethodOfATx
PLAIN_STORIES_PACKAGES = $(sort $(dir $(shell grep -rlE --include='*_test.go' '^func Test(.*WhenServerIsKilled|EveryMethodOfATx.*).t ' $(addprefix ./,$(GO_FOLDERS)))))
# The stories of users and of the store are many, take several times as long under the race detector, and mostly do one thing after the
# other. test runs them without it, and those in which several things happen at once also with it; test-race runs all with it.
STORY_PACKAGES := $(addprefix $(shell go list -m)/,store/sqlstore apiserver/frontend/enduser)
CONCURRENT_STORIES = Concurrent|AtOnce|Meanwhile|Once|EveryServer|AllServers|Thousand|^TestConformance/^(concurrency|fences|feed|term|events)$$
# Tests in which others must respond in time: Redis within 50 ms, and a control plane and an operator. Under the race detector, the
# integration tests take more than twice the processor time: test runs them without it, and test-race with it.
TIMELY_PACKAGES := $(addprefix $(shell go list -m)/,apiserver/limits/shared test/integration)
TIMELY_RACE = $(filter-out %/test/integration,$(TIMELY_PACKAGES))
# The race detector needs a C compiler; otherwise only Vale does. It instruments all Go code except SQLite, its C library and its memory:
# these were translated from C, use their own locks, and are five times slower with the detector. The driver is instrumented, but its
# pointers are not checked.
RACE_FLAGS = -race $(foreach package,modernc.org/sqlite/lib modernc.org/libc modernc.org/memory,-gcflags='$(package)=-race=false -dwarf=false') \
	-gcflags='modernc.org/sqlite=-d=checkptr=0 -dwarf=false'
RACE := $(if $(shell command -v gcc || command -v clang),$(RACE_FLAGS))
# Without GOGC, a third of the time under race is garbage collection, and a fifth of that of the stories without it. Only the control plane of
# the integration tests inherits it; tests that start Cardea as a process run without it.
RACE_TEST = $(CGO) $(call GO_TEST_WITH,GOGC=400)
CGO = $(if $(RACE),CGO_ENABLED=1)
GO_TEST = $(call GO_TEST_WITH,)
# NICE begins the commands of tests with a lower priority.
NICE =
# go test with environment variables of the tests. GOGC and GOMEMLIMIT of COMPILER are the compiler's alone. `make lint` runs go vet.
GO_TEST_WITH = KUBEBUILDER_ASSETS="$${KUBEBUILDER_ASSETS:-$(CURDIR)/bin/k8s}" $(COMPILER) \
	$(NICE) go test -vet=off -exec 'env -u GOGC -u GOMEMLIMIT $(1)' -v -count=1 -p $(PROCS) -timeout $(TEST_TIMEOUT) $(if $(RUN),-run '$(RUN)') $(TEST_FLAGS)

# Reads `go test -v`. Prints one line for each package, the whole output of a failed package, and at the end the skipped tests and the
# failed ones with what they reported: of each, the last ten messages, or the first eighty lines of Ginkgo, each cut at 400 bytes.
define SUMMARY
{ line = $$0; gsub(/\033\[[0-9;]*m/, "", line) }
/^=== (RUN|CONT|NAME)/ { test = $$3 }
/^ +[^ ]+\.go:[0-9]+: / { said[test] = substr($$0, match($$0, /[^ ]/)); heard[test, ++count[test]] = said[test] }
line ~ /^ *\[(FAILED|PANICKED|TIMEDOUT)\]/ { grab = 12 }
grab > 0 && specs < 80 && line !~ /^ *---/ { spec[++specs] = line; grab-- }
/^ok *\t/ { specs = 0 }
/^ *--- PASS/ { passed++ }
/^ *--- FAIL/ {
	failed++
	failure[++failures] = $$3
	for (i = (count[$$3] > 10 ? count[$$3] - 9 : 1); i <= count[$$3]; i++) failure[++failures] = "    " heard[$$3, i]
	for (i = 1; i <= specs; i++) failure[++failures] = "    " spec[i]
	specs = grab = 0
}
/^(panic: |WARNING: DATA RACE|FAIL\t.*\[)/ { failure[++failures] = $$0 }
/^ *--- SKIP/ { skipped[++skips] = "skipped: " $$3 " (" said[$$3] ")" }
/^\?/ { next }
/^ok *\t/ { print; fflush(); lines = 0; next }
/^FAIL\t/ { for (i = 1; i <= lines; i++) print buffer[i]; print; fflush(); lines = 0; next }
{ buffer[++lines] = $$0 }
END {
	for (i = 1; i <= lines; i++) if (buffer[i] !~ /^(FAIL|PASS)$$/) print buffer[i]
	for (i = 1; i <= skips; i++) print skipped[i]
	for (i = 1; i <= failures; i++) print "failed: " substr(failure[i], 1, 400)
	printf "%d tests passed, %d failed, %d skipped\n", passed, failed, skips
}
endef
export SUMMARY
SUMMARIZE = awk "$$SUMMARY"
# Reads the summaries of several runs. Prints all failures last, and adds up the last lines.
TOTAL = awk '/^[0-9]+ tests passed, / { passed += $$1; failed += $$4; skipped += $$6; next } /^failed: / { failure[++failures] = $$0; next } \
	{ print; fflush() } \
	END { for (i = 1; i <= failures; i++) print failure[i]; printf "%d tests passed, %d failed, %d skipped\n", passed, failed, skipped }'

##@ Help

.PHONY: help
help: ## List the targets.
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-zA-Z0-9_-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

##@ Run

.PHONY: build
build: ## Build bin/cardea and bin/kubectl-cardea: static, without cgo.
	$(QUIET)$(COMPILER) $(GO_BUILD) $(BUILD_FLAGS) -ldflags '-s -w -X main.version=$(VERSION)' -o $(OUT)/ ./cmd/cardea ./cmd/kubectl-cardea
	@ln -sf kubectl-cardea $(OUT)/kubectl_complete-cardea

.PHONY: run
run: first-start $(RUN_NEEDS) build bin/localrun ## Run Cardea over a control plane on loopback (CLUSTER=current: on your kubeconfig's cluster; STORE=postgres://... instead of SQLite).
	@exec bin/localrun $(if $(STORE),--store='$(STORE)') $(if $(CLUSTER),--cluster='$(CLUSTER)' --kubectl='$(KUBECTL)')

# The steps of run print the time since its start. If Cardea was never built, its compilation takes long and prints its progress.
run: export CARDEA_STARTED := $(shell date +%s)
run: QUIET = @
run: GO_BUILD = $(if $(wildcard $(OUT)/cardea),go build,go run $(BUILD_FLAGS) ./hack/compile -name Cardea -count './cmd/cardea ./cmd/kubectl-cardea' --)

.PHONY: first-start
first-start:
	@hack/first-start.sh '$(OUT)/cardea' $(RUN_NEEDS)

.PHONY: k8s
k8s: ## Put the control plane and kubectl into bin/k8s: compiled, or fetched (CARDEA_K8S_MIRROR=https://...) if their sums are known.
	@hack/build-k8s.sh

.PHONY: bin/localrun
bin/localrun:
	@$(COMPILER) go build $(BUILD_FLAGS) -ldflags '-s -w' -o $@ ./hack/localrun

##@ Test

.PHONY: test
test: deps k8s build release-before ## Run every test, and set up its dependencies first.
	@$(if $(RACE),,echo "no C compiler: the race detector is off")
	@$(MAKE) -s -j3 test-own test-timely test-processes | $(TOTAL)

# The parts of test run concurrently: tests that compute, tests in which others must respond in time, and tests that start processes and
# mostly wait for them. Tests that compute have what the others leave, and wait as long as it takes.
.PHONY: test-own test-timely test-processes race-packages
test-own: NICE = nice -n 5
test-own: race-packages
	@{ status=0; \
		$(RACE_TEST) $(RACE) $(if $(RUN),,-skip '$(PLAIN_STORIES)') $(filter-out $(STORY_PACKAGES) $(TIMELY_PACKAGES),$(RACE_PACKAGES)) || status=$$?; \
		$(if $(RACE),$(RACE_TEST) $(RACE) $(if $(RUN),,-skip '$(PLAIN_STORIES)' -run '$(CONCURRENT_STORIES)') $(STORY_PACKAGES) || status=$$?;) \
		$(if $(and $(RACE),$(RUN)),,$(call GO_TEST_WITH,GOGC=400) $(if $(RUN),,-skip '$(PLAIN_STORIES)') $(STORY_PACKAGES) || status=$$?;) \
		$(if $(RUN),,$(NICE) hack/fuzz.sh $(FUZZ_INPUTS) $(FUZZ_PACKAGES) || status=$$?;) \
		exit $$status; } | $(SUMMARIZE)
test-timely: PROCS = 1
test-timely: race-packages
	@{ status=0; \
		$(RACE_TEST) $(RACE) $(TIMELY_RACE) || status=$$?; \
		$(call GO_TEST_WITH,GOGC=400) $(filter-out $(TIMELY_RACE),$(TIMELY_PACKAGES)) || status=$$?; \
		exit $$status; } | $(SUMMARIZE)
# Concurrent go commands do not share what they compile, so the packages that both parts need are compiled first.
race-packages:
	@$(if $(RACE),$(CGO) $(COMPILER) go build $(RACE) ./api/... ./apiserver/... ./client/... ./controllers/... ./internal/... ./store/...)
test-processes: PROCS = 1
test-processes:
	@{ status=0; \
		$(GO_TEST) $(PLAIN_PACKAGES) || status=$$?; \
		$(if $(RUN),,$(GO_TEST) -run '$(PLAIN_STORIES)' $(PLAIN_STORIES_PACKAGES) || status=$$?;) \
		for module in $(MODULES); do (cd $$module && $(GO_TEST) ./...) || status=$$?; done; \
		exit $$status; } | $(SUMMARIZE)

.PHONY: release-before
release-before: ## Build the previous release into bin/before, if the clone has its history.
	@hack/build-before.sh || [ $$? -eq 3 ]

.PHONY: fuzz
fuzz: ## Fuzz every parser, each with FUZZ_MANY inputs.
	@hack/fuzz.sh $(FUZZ_MANY) ./...

.PHONY: test-unit
test-unit: ## Run the tests that need neither a control plane nor PostgreSQL.
	@$(GO_TEST) -short $(RACE_PACKAGES) | $(SUMMARIZE)

.PHONY: test-race
test-race: k8s ## Run the tests of Cardea's own packages under the race detector.
	@CGO_ENABLED=1 $(RACE_TEST) $(RACE_FLAGS) $(RACE_PACKAGES) | $(SUMMARIZE)

.PHONY: test-engines
test-engines: ## Run the stories of users over SQLite and PostgreSQL, where test runs them over SQLite: before a release.
	@CARDEA_TEST_ENGINES=all $(GO_TEST) ./apiserver/frontend/... | $(SUMMARIZE)

.PHONY: test-gateways
test-gateways: k8s build gateways ## Run the gateway stories, with Traefik's.
	@$(GO_TEST) ./test/e2e -ginkgo.focus 'A gateway' | $(SUMMARIZE)

.PHONY: gateways
gateways: ## Build Traefik and Caddy into bin/gateways.
	@hack/build-gateways.sh

.PHONY: test-oauth-clients
test-oauth-clients: k8s build oauth-clients ## Run all stories of published OAuth clients.
	@$(GO_TEST) ./test/e2e -ginkgo.focus 'published clients' | $(SUMMARIZE)

.PHONY: oauth-clients
oauth-clients: ## Install kubelogin, oauth2-proxy and the npm clients.
	@hack/build-oauth-clients.sh

.PHONY: test-examples
test-examples: examples ## Run the programs of the pages, the npm programs too.
	@$(GO_TEST) ./test/examples | $(SUMMARIZE)

.PHONY: examples
examples: ## Install the npm packages of the pages' programs, and the linter of lint-contract.
	@hack/npm-ci.sh test/examples

.PHONY: test-passkeys
test-passkeys: ## Run the tests of passkeys and of authenticator apps, with SimpleWebAuthn and otplib as peers (needs npm).
	@hack/npm-ci.sh test/passkeys
	@$(GO_TEST) ./apiserver/users/passkey ./internal/totp | $(SUMMARIZE)

.PHONY: test-agents
test-agents: ## Run the tests of agents, with published MCP clients, ajv and the conformance suite of MCP as peers (needs npm).
	@hack/npm-ci.sh test/agentpeers
	@$(GO_TEST) ./apiserver/agents | $(SUMMARIZE)

.PHONY: test-webhooks
test-webhooks: ## Run the tests of webhooks, with standardwebhooks, svix and cloudevents as peers (needs npm).
	@hack/npm-ci.sh test/webhooks
	@$(GO_TEST) ./apiserver/events/webhooks | $(SUMMARIZE)

.PHONY: test-connections
test-connections: upstream-peers saml-peers scim-peers k8s build ## Run the sign-ins by published providers of OpenID Connect and SAML, compare SAML with node-saml and Dex, and SCIM with scim-patch and scimmy, and deprovision 100 users (needs npm; builds Dex once, which takes minutes).
	@CARDEA_DEPROVISIONINGS=100 $(GO_TEST) ./test/e2e -ginkgo.focus 'Connections and directories' | $(SUMMARIZE)
	@$(GO_TEST) -run '^(TestPublishedProvider|TestDex|TestCardeaSignsUsersIn|TestPublishedServiceProvider|TestPublishedImplementations|TestPublishedParser)' ./apiserver/frontend/enduser ./apiserver/connection/saml ./apiserver/scim | $(SUMMARIZE)

.PHONY: upstream-peers
upstream-peers: bin/upstream-peers/dex ## Install oidc-provider, and build Dex into bin/upstream-peers.
	@hack/npm-ci.sh test/upstreampeers

.PHONY: saml-peers
saml-peers: bin/upstream-peers/dex-saml ## Install node-saml, SimpleSAMLphp and Dex's connector: published service providers and a published identity provider of SAML.
	@hack/npm-ci.sh test/samlpeers
	@hack/install-samlpeers.sh

.PHONY: scim-peers
scim-peers: ## Install scim-patch, scimmy and scim2-parse-filter, published implementations of SCIM.
	@hack/npm-ci.sh test/scimpeers

bin/upstream-peers/dex: test/upstreampeers/dex/go.mod test/upstreampeers/dex/go.sum
	@cd test/upstreampeers/dex && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o ../../../$@ github.com/dexidp/dex/cmd/dex

bin/upstream-peers/dex-saml: test/upstreampeers/dex/go.mod test/upstreampeers/dex/go.sum test/upstreampeers/dex/saml/main.go
	@cd test/upstreampeers/dex && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o ../../../$@ ./saml

.PHONY: test-modules
test-modules: k8s build ## Run the tests of the chart and of the release, which have their own modules.
	@{ status=0; for module in $(MODULES); do (cd $$module && $(GO_TEST) ./...) || status=$$?; done; exit $$status; } | $(SUMMARIZE)

.PHONY: test-gitops
test-gitops: k8s build ## Run the GitOps stories with the engines of Flux and Argo CD, with concurrent HTTP writes (SOAK=3m: sync for that long, and print figures).
	@cd test/gitops && CARDEA_GITOPS_SOAK=$(SOAK) $(GO_TEST) $(if $(SOAK),-timeout 0) ./... $(if $(SOAK),,| $(SUMMARIZE))

.PHONY: deflake
deflake: k8s build ## Run tests until one fails (RUN=..., COUNT=...).
	@$(CGO) $(GO_TEST) $(RACE) -failfast -count=$(COUNT) $(TEST_PACKAGES) | $(SUMMARIZE)

.PHONY: bench
bench: k8s build ## Measure the figures of docs/benchmarks.md.
	go test -run '^$$' -bench '$(BENCH)' -benchmem -timeout 30m $(BENCH_PACKAGES)
	$(BENCH_END_TO_END)

.PHONY: bench-directories
bench-directories: k8s build ## Measure directories of 100,000 users, on both engines (20 to 30 minutes).
	go test ./test/bench -v -count=1 -run '$(BENCH_DIRECTORIES)' -timeout 0

.PHONY: chaos
chaos: deps k8s build ## Kill, freeze and stop an install's processes at random under load, and check that nothing is lost (MINUTES=10, SEED=...).
	KUBEBUILDER_ASSETS="$${KUBEBUILDER_ASSETS:-$(CURDIR)/bin/k8s}" CARDEA_CHAOS_MINUTES=$(or $(MINUTES),10) CARDEA_CHAOS_SEED=$(SEED) CARDEA_CHAOS_JOURNAL=$(CURDIR)/bin/chaos.jsonl \
	  go test ./test/chaos -v -count=1 -run TestChaos -timeout 0

.PHONY: isolation
isolation: deps k8s build ## Run every attack of one deployment during traffic of others, with Redis and without (EACH=20 seconds).
	KUBEBUILDER_ASSETS="$${KUBEBUILDER_ASSETS:-$(CURDIR)/bin/k8s}" CARDEA_ISOLATION_SECONDS=$(or $(EACH),20) CARDEA_ISOLATION_REPORT=$(CURDIR)/bin/isolation.md \
	  go test ./test/isolation -v -count=1 -timeout 0

.PHONY: soak
soak: deps k8s build ## Run an install under mixed load, and report what grows: memory, goroutines, connections, rows, p99 (MINUTES=10, HOURS=...).
	KUBEBUILDER_ASSETS="$${KUBEBUILDER_ASSETS:-$(CURDIR)/bin/k8s}" CARDEA_SOAK_MINUTES=$(if $(HOURS),$$(( $(HOURS) * 60 )),$(or $(MINUTES),10)) CARDEA_SOAK_REPORT=$(CURDIR)/bin/soak.md \
	  go test ./test/soak -v -count=1 -timeout 0

.PHONY: ha
ha: deps k8s build ## Repeat the failovers: PostgreSQL (killed primary, standby that missed writes, vanished host: as root, with iproute2), Redis by Sentinel.
	CARDEA_HA=1 go test ./apiserver/limits/shared -run Sentinel -v -count=1
	KUBEBUILDER_ASSETS="$${KUBEBUILDER_ASSETS:-$(CURDIR)/bin/k8s}" CARDEA_HA=1 go test ./test/ha -v -count=1 -timeout 0

.PHONY: import-proof
import-proof: k8s build ## Import a million users and five million sign-ins, with kills meanwhile, and compare the counts with the file.
	KUBEBUILDER_ASSETS="$${KUBEBUILDER_ASSETS:-$(CURDIR)/bin/k8s}" CARDEA_IMPORT_USERS=1000000 go test ./test/e2e -v -count=1 -timeout 2h -ginkgo.focus 'Moving in' -ginkgo.timeout 2h

.PHONY: pictures
pictures: deps ## Draw the two pictures of docs/tour.md again, from the pages of the browser tests.
	CARDEA_PICTURES=1 CARDEA_CONSOLE_NAME=Lovelace go test ./test/browser -count=1 -run 'TestEveryViewOfTheConsoleIsAccessibleAtEverySize/1280-light|TestUsersManageTheirAccount/1280-light$$'
	cp test/browser/pictures/pages-sign-in-1280-light.png docs/pictures/sign-in.png
	cp test/browser/pictures/console-overview-1280-light.png docs/pictures/console.png

.PHONY: peers
peers: k8s build bin/peers/ratelimit ## Compare the limiter with others: in-process limiters for Go, and envoyproxy/ratelimit over gRPC.
	cd test/peers && go test -v -run . -bench . -benchmem -timeout 30m
	go test ./test/bench -v -count=1 -run TestBenchBesideRatelimit -timeout 30m

bin/peers/ratelimit: test/peers/ratelimit/go.mod test/peers/ratelimit/go.sum
	@cd test/peers/ratelimit && CGO_ENABLED=0 go build -trimpath -o ../../../$@ github.com/envoyproxy/ratelimit/src/service_cmd

.PHONY: deps
deps: ## Install the tests' dependencies other than Go.
	@hack/install-deps.sh

##@ Check

.PHONY: fmt
fmt: ## Format the Go code.
	@gofmt -w $(GO_FOLDERS)

.PHONY: vet
vet: ## Run go vet.
	@$(COMPILER) go vet ./...
	@for module in $(MODULES); do (cd $$module && $(COMPILER) go vet ./...) || exit 1; done

.PHONY: lint
lint: vet lint-language bin/tools/staticcheck bin/tools/revive bin/tools/depguard bin/tools/vacuum ## Check format, code, imports, API comments and the HTTP contract.
	@unformatted=$$(gofmt -l $(GO_FOLDERS)); [[ -z $$unformatted ]] || { echo "not formatted (make fmt):"; echo "$$unformatted"; exit 1; }
	@$(LINTER) bin/tools/staticcheck ./...
	@$(LINTER) bin/tools/revive -config hack/revive.toml -set_exit_status ./...
	@go run ./hack/lint-api
	@go run ./hack/lint-layout
	@$(LINTER) bin/tools/depguard ./...
	@for document in $(LISTENERS); do \
		bin/tools/vacuum lint -b -d -q --no-clip --no-update-check --ignore-array-circle-ref --fail-severity warn -r hack/vacuum.yaml apiserver/httpapi/openapi/$$document.yaml >bin/vacuum.log || \
			{ cat bin/vacuum.log; exit 1; }; \
	done

.PHONY: lint-language
lint-language: bin/tools/vale ## Check the words of comments, pages and, in the generated clients, of the HTTP contract (.vale/Cardea).
	@git ls-files '*.go' '*.md' | grep -vE '^api/.*zz_generated|/applyconfiguration/|/swaggerui/|^docs/resources.md$$' | $(LINTER) xargs -r bin/tools/vale --output=line --minAlertLevel=error

.PHONY: lint-contract
lint-contract: examples ## Check the HTTP contract with Redocly's recommended-strict rules (needs npm).
	@cd test/examples && for listener in $(LISTENERS); do \
		REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true node_modules/.bin/redocly lint --extends=recommended-strict ../../apiserver/httpapi/openapi/$$listener.yaml; \
	done

.PHONY: verify
verify: generate manifests chart docs ## Regenerate everything, and fail if the tree differs.
	@git diff --exit-code -- $(GENERATED)
	@untracked=$$(git ls-files --others --exclude-standard -- $(GENERATED)); \
		[[ -z $$untracked ]] || { echo "generated, but not in git:"; echo "$$untracked"; exit 1; }

##@ Generate

.PHONY: generate
generate: bin/tools/controller-gen bin/tools/oapi-codegen ## Generate Go code: deepcopy, apply configurations, HTTP clients and the types that servers share with them.
	@$(LINTER) bin/tools/controller-gen object applyconfiguration paths=./api/...
	@cd apiserver/httpapi/openapi && for listener in $(LISTENERS); do ../../../bin/tools/oapi-codegen -config ../../../client/$$listener/codegen.yaml $$listener.yaml; done
	@# Null in an answer is a nil pointer; only optional members of a request need a third state, absent.
	@sed -i -E 's/nullable\.Nullable\[(any)\](\s+`json:"[^",]+"`)/\1\2/; s/nullable\.Nullable\[(.+)\](\s+`json:"[^",]+"`)/*\1\2/' client/backend/zz_generated.go client/enduser/zz_generated.go
	@gofmt -w client/backend/zz_generated.go client/enduser/zz_generated.go

.PHONY: manifests
manifests: bin/tools/controller-gen ## Generate the CRDs, the operator's role, and the files that list every kind.
	@$(LINTER) bin/tools/controller-gen crd:allowDangerousTypes=true paths=./api/... output:crd:artifacts:config=config/crd/bases
	@$(LINTER) bin/tools/controller-gen rbac:roleName=cardea-operator paths=./controllers/... output:rbac:artifacts:config=config/rbac
	@go run ./hack/gen-config
	@hack/gen-argocd.sh

.PHONY: chart
chart: ## Generate the Helm chart's kinds, roles and network policies from config/.
	@go run ./hack/gen-chart

.PHONY: docs
docs: bin/tools/crd-ref-docs ## Generate docs/resources.md.
	@mkdir -p docs
	@$(LINTER) bin/tools/crd-ref-docs --log-level=ERROR --config=hack/crd-ref-docs.yaml --templates-dir=hack/crd-ref-docs-templates \
		--source-path=api/v1alpha1 --renderer=markdown --output-path=docs/resources.md

##@ Install

.PHONY: install
install: $(filter bin/%,$(KUBECTL)) ## Install the kinds in the cluster of your kubeconfig.
	$(KUBECTL) apply --server-side -k config/crd

.PHONY: deploy
deploy: $(filter bin/%,$(KUBECTL)) ## Install Cardea over PostgreSQL there (IMAGE=...).
	$(call RENDER,config/default) | $(KUBECTL) apply --server-side -f -

.PHONY: dist
dist: $(filter bin/%,$(KUBECTL)) ## Write dist/install.yaml and dist/install-standalone.yaml (IMAGE=...).
	@mkdir -p dist
	$(call RENDER,config/default) >dist/install.yaml
	$(call RENDER,config/default-standalone) >dist/install-standalone.yaml

.PHONY: image
image: bin/release ## Write the image of amd64 and arm64 into dist/image, without a container engine (VERSION=..., PUSH=registry/name:tag).
	@rm -rf dist/image
	@bin/release $(RELEASE_FLAGS) -out dist $(if $(PUSH),-push '$(PUSH)') image

.PHONY: release
release: bin/release bin/k8s/kubectl ## Write all files of a release into dist/release (VERSION=v0.2.0, IMAGE_NAME=registry/cardea).
	@rm -rf dist/release
	@bin/release $(RELEASE_FLAGS) -out dist/release -kubectl bin/k8s/kubectl $(if $(PUSH),-push '$(PUSH)') all
	@cat dist/release/checksums.txt

# Without VERSION on the command line, the version comes from the file VERSION: a release is never named after a commit.
RELEASE_FLAGS = -image '$(IMAGE_NAME)' $(if $(filter command environment,$(firstword $(origin VERSION))),-version '$(VERSION)')

.PHONY: bin/release
bin/release:
	@cd hack/release && go build -o ../../$@ .

RENDER = $(KUBECTL) kustomize $(1) | sed 's|image: cardea:latest$$|image: $(IMAGE)|'

##@ Tools

TOOLS := controller-gen oapi-codegen staticcheck revive crd-ref-docs depguard vacuum vale
.PHONY: tools
tools: $(addprefix bin/tools/,$(TOOLS)) ## Build the tools of hack/tools/go.mod into bin/tools.

bin/tools/controller-gen: package := sigs.k8s.io/controller-tools/cmd/controller-gen
bin/tools/oapi-codegen: package := github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen
bin/tools/staticcheck: package := honnef.co/go/tools/cmd/staticcheck
bin/tools/revive: package := github.com/mgechev/revive
bin/tools/crd-ref-docs: package := github.com/elastic/crd-ref-docs
bin/tools/depguard: package := github.com/OpenPeeDeeP/depguard/v2/cmd/depguard
bin/tools/vacuum: package := github.com/daveshanley/vacuum
bin/tools/vale: package := github.com/errata-ai/vale/v3/cmd/vale
# Vale reads Go comments with a C library.
bin/tools/vale: cgo := 1
$(addprefix bin/tools/,$(TOOLS)): hack/tools/go.mod hack/tools/go.sum
	@cd hack/tools && $(COMPILER) CGO_ENABLED=$(or $(cgo),0) go build -o ../../$@ $(package)

bin/k8s/kubectl:
	@hack/build-k8s.sh
