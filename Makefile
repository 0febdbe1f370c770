# Everything here needs Go, git and make, no terminal, and may run under `make -j`.

# Without cgo every machine builds the same programs, and build, lint and most tests share
# one build cache. The race detector is the exception, see test.
export CGO_ENABLED := 0

# The same for what it is built with, those of the Dockerfile: no paths of this machine; no debug information, as nobody
# debugs what is built here, and a machine that has nothing would need a tenth longer; and not gRPC's own traces, which
# nobody asks for, and for which the linker would keep 27 MB of methods in the program.
export GOFLAGS += -trimpath -gcflags=all=-dwarf=false -tags=grpcnotrace

# Nothing here uses a cluster of the user. Without a value, clients would read ~/.kube/config.
export KUBECONFIG := /dev/null
unexport KUBERNETES_SERVICE_HOST KUBERNETES_SERVICE_PORT

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

# Developer tools have a separate go.mod, so that their dependencies stay out of ours.
# Go builds them on first use and caches them.
GOLANGCI_LINT := go tool -modfile=.ci/tools/go.mod golangci-lint
CONTROLLER_GEN := go tool -modfile=.ci/tools/go.mod controller-gen
MSGP := go tool -modfile=.ci/tools/go.mod msgp -io=false -tests=false
DEADCODE := go tool -modfile=.ci/tools/go.mod deadcode
ACTIONLINT := go tool -modfile=.ci/workflows/go.mod actionlint -shellcheck=
CRD_REF_DOCS := go tool -modfile=.ci/tools/go.mod crd-ref-docs --log-level ERROR

# Modules whose dependencies stay out of ours and that have tests, those that take longest first, and every
# module of the repository, of which only the first is what users build.
TESTED := test/chart test/certmanager test/alerts test/kwok test/page test/readme test/sink .ci/image .ci/plugin .ci/prose .ci/kubelint .ci/site
MODULES := . $(TESTED) .ci/tools .ci/workflows test/controlplane

# On a new machine, a test first builds the Kubernetes control plane. The linters of this module include go vet. Without a symbol table,
# linking needs a quarter less processor time; stack traces do not need it. Parts of `make test` set NICE and GUARD.
NICE :=
GUARD :=
GO_TEST = $(NICE) $(GUARD) go test -timeout 60m -vet=off -ldflags=-s

# For tests that start control planes. Each of their programs needs up to a fifth less processor time if it uses one processor at a time.
CLUSTER_TEST = $(GO_TEST) -count=1 -exec 'env GOMAXPROCS=1'

.DEFAULT_GOAL := help

##@ See it work

# First the packages of the webhook and of the demo, most of which the control plane has too: two builds at once would both compile
# them. Then both at once, as neither keeps all processors busy to its end.
# The compiler needs a quarter less processor time where it collects garbage less often.
.PHONY: demo-built
demo-built: export GOGC := 400
demo-built:
	@echo 'building the webhook and the demo'
	@go build $$(go list -deps -f '{{if ne .Name "main"}}{{.ImportPath}}{{end}}' ./cmd/webhook ./test/demo)
	@go run ./test/cluster/prebuild etcd kube-apiserver >/dev/null & \
	go build -ldflags '-s -w' -o bin/demo ./test/demo && bin/demo -build; \
	built=$$?; wait; exit $$built

.PHONY: demo
demo: demo-built ## Storm a real API server with and without the webhook, and compare
	@bin/demo

.PHONY: run
run: demo-built ## Start a control plane and the webhook, and leave them running
	@bin/demo -keep

# They run the webhook of this checkout, whatever the environment says.
demo run bench compatibility: export EVENTQUOTA_TEST_PROGRAM :=

.PHONY: bench
bench: redis-server ## Measure throughput and latency; results in bin/bench.json
	go run ./test/bench

# Files that make bench wrote, all of one commit. FIGURES= records those of the demo only.
FIGURES := bin/bench.json

.PHONY: figures
figures: ## Record bin/bench.json, and of DEMO=FILE what make demo printed, in docs/bench.json, and render docs
	go run ./test/bench record $(FIGURES:%=-figures '%') $(if $(DEMO),-demo '$(DEMO)')

# All versions of Kubernetes that test/controlplane builds, or VERSIONS="1.34 1.37", and all parts, or PARTS="facts validation".
.PHONY: compatibility
compatibility: export GOGC := 400
compatibility: redis-server ## Test on each version of Kubernetes, or those of VERSIONS=, and record it in docs/compatibility.md
	go run ./test/compatibility -versions '$(VERSIONS)' -parts '$(PARTS)'; tested=$$?; go run ./test/bench render && exit $$tested

##@ Release

.PHONY: release
release: STRICT := -strict
release: verify-figures verify manifests chart image plugin ## Make all that is released, in bin/release; fails where figures are older than what they measure
	rm -rf bin/release && mkdir -p bin/release
	cp bin/manifests/*.yaml bin/eventquota-$(VERSION).oci.tar bin/eventquota-$(VERSION)-*.cdx.json bin/plugin/* \
		bin/eventquota-$(CHART_VERSION).tgz bin/release/
	cd bin/release && sha256sum * >SHA256SUMS

.PHONY: manifests
manifests: ## Render each way to install into one file in bin/manifests
	rm -rf bin/manifests
	go run ./test/manifests -version '$(VERSION)' -dir bin/manifests

# Without a release, versions are 0.0.0.
CHART_VERSION = $(if $(filter v%,$(VERSION)),$(VERSION:v%=%),0.0.0)

.PHONY: chart
chart: ## Package the chart into bin/
	HELM_NO_PLUGINS=1 go -C test/chart tool helm.sh/helm/v4/cmd/helm package $(CURDIR)/manifests/chart --destination $(CURDIR)/bin --version '$(CHART_VERSION)' --app-version 'v$(CHART_VERSION)'

.PHONY: image
image: ## Build the container image and a list of what is in it, as files in bin/
	go -C .ci/image run . -version '$(VERSION)' $(if $(BASE),-base '$(BASE)')

.PHONY: plugin
plugin: ## Pack the kubectl plugin for every platform, and a manifest for krew, in bin/plugin
	rm -rf bin/plugin
	go -C .ci/plugin run . $(if $(filter v%,$(VERSION)),-version '$(VERSION)')

.PHONY: site
site: ## Render README.md, DESIGN.md and docs/ as a site with search in bin/site
	go -C .ci/site tool hugo --quiet --noBuildLock --cleanDestinationDir --panicOnWarning --destination $(CURDIR)/bin/site

# Of real runs: simulate of a sample, top and ui of the storms of their tests, and the demo. Those of top and of the demo move, at most three
# seconds for each screen. Chromium's sandbox does not run as root; the page is our own.
RECORD := termtosvg record
RENDER := termtosvg render -t window_frame

.PHONY: pictures
pictures: build demo-built chromium tmux termtosvg ## Make the pictures of docs/pictures from real runs
	rm -rf bin/pictures && mkdir -p bin/pictures docs/pictures
	cd manifests/components/recommended-1000-nodes && \
		$(CURDIR)/bin/eventquota simulate --sample churn --policies pod-lives.yaml | sed '22,$$d' | fold -s -w 110 >$(CURDIR)/bin/pictures/simulate.ansi
	cd manifests/components/recommended-1000-nodes && \
		$(CURDIR)/bin/eventquota simulate --sample churn --policies pod-lives.yaml -o html >$(CURDIR)/bin/pictures/simulate.html
	HOME=$(CURDIR)/bin/pictures XDG_CONFIG_HOME= XDG_CACHE_HOME= chromium --headless --no-sandbox --hide-scrollbars --window-size=1100,670 --screenshot=docs/pictures/simulate.png bin/pictures/simulate.html
	go test -count=1 ./test/live -run TestScreenInTerminal -pictures $(CURDIR)/bin/pictures
	go -C test/page test -count=1 . -run TestUIPage -pictures $(CURDIR)/bin/pictures
	script -qec '$(RECORD) bin/pictures/simulate.cast -g 110x25 -c "cat bin/pictures/simulate.ansi"' /dev/null </dev/null
	script -qec '$(RECORD) bin/pictures/demo.cast -g 146x36 -c bin/demo' /dev/null </dev/null
	$(RENDER) --still-frames bin/pictures/simulate.cast bin/pictures
	cp "$$(ls bin/pictures/termtosvg_*.svg | tail -n 1)" docs/pictures/simulate.svg
	for name in top demo; do $(RENDER) -m 100 -M 3000 -D 5000 bin/pictures/$$name.cast docs/pictures/$$name.svg || exit 1; done
	cp bin/pictures/1280-light-namespaces.png docs/pictures/ui.png

##@ Develop

.PHONY: build
build: ## Build bin/eventquota
	go build -ldflags '-s -w -X main.version=$(VERSION)' -o bin/eventquota ./cmd/webhook
	ln -sf eventquota bin/kubectl-eventquota
	ln -sf eventquota bin/kubectl_complete-eventquota

# Parts that take longest come first, also those that mostly come from the test cache, test-units and test-raced. Three run at once, so that
# both of two processors stay busy to the end; with four, each takes up to three times as long. CLUSTER_TEST is for those that run the
# webhook, which is built once, or read what is outside of their module: the test cache does not know of that, so they always run. A part
# that fails does not keep the others from running, and its output is not mixed with theirs.
# Garbage is collected less often, as memory is there; the webhook's own process does as ever.
MODULE_PARTS := $(TESTED:%=test-module/%)
TEST_PARTS := test-e2e test-storms test-units test-raced test-clusters $(wordlist 1,4,$(MODULE_PARTS)) test-facts test-oldest-facts test-oldest-e2e \
	$(wordlist 5,99,$(MODULE_PARTS))

.PHONY: test
test: export GOGC := 400
test: export EVENTQUOTA_TEST_PROGRAM := $(CURDIR)/bin/test/eventquota
test: redis-server chromium tmux nodejs npm python3-kubernetes ## Run all tests
	@go build $$(go list -f '{{if and .GoFiles (ne .Name "main")}}{{.ImportPath}}{{end}}' ./...) # once, and not in several parts at the same time; links nothing
	@go build -ldflags=-s -o $(EVENTQUOTA_TEST_PROGRAM) ./cmd/webhook
	@$(MAKE) --no-print-directory -j 3 -k --output-sync=target PACKAGES='$(PACKAGES)' $(TEST_PARTS) || { echo 'make test failed: see the packages with FAIL above' >&2; exit 1; }

# The part that takes longest has priority: it mostly waits, and the others use the processor time that it leaves.
$(filter-out test-e2e,$(TEST_PARTS)): NICE := nice

# Tests run as a user with a cluster and a home directory that they must not use: test/userenv/guard fails if they do.
$(TEST_PARTS) test-quick test-race: GUARD = $(CURDIR)/bin/test/guard $(CURDIR)/bin/test/user/$@
$(TEST_PARTS) test-quick test-race: guard

.PHONY: guard
guard:
	@go build -o bin/test/guard ./test/userenv/guard

.PHONY: $(TEST_PARTS)

# Three packages at a time, as some wait for times to pass.
test-units:
	$(GO_TEST) -p 3 $(filter-out $(RACED),$(UNITS)) $(WITHOUT_CLUSTER)
	$(GO_TEST) -run '$(NOT_RACED)' $(filter %/store/memory %/store/redis %/connections,$(RACED))

# Under the race detector, most dependencies would be compiled once more, for eight minutes: those of these packages are few. Sizes,
# what one goroutine decides, and conformance with Redis of several servers are tested without it.
test-raced:
	$(RACE_TEST) -skip '$(NOT_RACED)' $(RACED)

test-e2e:
	$(CLUSTER_TEST) -parallel 4 ./test/e2e

# Packages in ./test/ start whole control planes.
test-clusters:
	$(CLUSTER_TEST) -p 1 -parallel 4 $(CLUSTERS)

# The test cache has nothing of tests that run with -exec.
test-facts test-oldest-facts: export GOMAXPROCS := 1
test-facts:
	$(GO_TEST) -parallel 4 $(FACTS)

# The writers of these storms get idle processor time only: one package at a time, or none would be left.
test-storms:
	$(GO_TEST) -count=1 -p 1 $(STORMS)

$(MODULE_PARTS): test-module/%:
	cd $* && $(CLUSTER_TEST) -parallel 2 ./...

test-oldest-facts:
	EVENTQUOTA_KUBERNETES=$(OLDEST) $(GO_TEST) -parallel 2 ./test/facts

test-oldest-e2e:
	EVENTQUOTA_KUBERNETES=$(OLDEST) $(CLUSTER_TEST) -parallel 2 -run TestValidation ./test/e2e

# Four packages at a time, as many tests wait for times to pass. Those that wait longest begin first.
.PHONY: test-quick
test-quick: export GOGC := 400
test-quick: redis-server ## Run the tests outside of test/ with few seeds, without API servers, Redis Cluster and Sentinel, and the race detector
	$(GO_TEST) -short -p 4 ./cmd/webhook/serve ./store/redis $(UNITS)

.PHONY: test-race
test-race: redis-server ## Run the tests outside of test/ under the race detector: before a release
	$(RACE_TEST) $(UNITS)

# A few tests also run on the oldest Kubernetes that the chart accepts. make compatibility tests older ones too.
OLDEST = $(shell sed -n 's/^kubeVersion: ">=\([0-9.]*\)\.0-0"$$/\1/p' manifests/chart/Chart.yaml)

# Listed once, as make test hands them to its parts.
PACKAGES = $(shell go list ./...)
MODULE := github.com/eventquota/eventquota
UNITS = $(filter-out $(MODULE)/test/%,$(PACKAGES))
RACED = $(filter-out %/engine,$(filter $(MODULE)/store $(MODULE)/store/% $(MODULE)/admission/connections,$(PACKAGES)))
NOT_RACED := FitsMemoryLimit|SizeEstimate|BoundedInBytes|NoisyNamespaceChangesNoOther|EvictionRefills|DisplaceAPIServers|Keeps?CountsExact|MatchesMemory|AccountingMatches|Rollback|(Sentinel|Cluster)Conformance
STORMS := $(MODULE)/test/attacks $(MODULE)/test/prioritylevels
# Like units, they depend on nothing outside of this module but Redis, and facts on Kubernetes, whose version is in this checkout.
WITHOUT_CLUSTER = $(filter $(addprefix $(MODULE)/test/,interleave% cluster/binaries compatibility demo policies userenv/guard),$(PACKAGES))
FACTS := $(MODULE)/test/facts $(MODULE)/test/cluster $(MODULE)/test/redis
CLUSTERS = $(filter-out %/test/e2e $(STORMS) $(WITHOUT_CLUSTER) $(FACTS),$(filter $(MODULE)/test/%,$(PACKAGES)))
# The race detector needs a C compiler.
RACE_TEST = $(shell if CGO_ENABLED=1 go build -race runtime/cgo 2>/dev/null; then echo env CGO_ENABLED=1 $(GO_TEST) -race; \
	else echo $(GO_TEST); fi)

# The tests start their own servers; they do not use a server that the package runs as a service.
.PHONY: redis-server chromium tmux termtosvg nodejs npm python3-kubernetes
INSTALLED = command -v $@
nodejs: INSTALLED = command -v node
python3-kubernetes: INSTALLED = /usr/bin/python3 -c 'import kubernetes'
redis-server chromium tmux termtosvg nodejs npm python3-kubernetes:
	@if $(INSTALLED) >/dev/null 2>&1; then exit 0; fi; \
	if ! command -v apt-get >/dev/null; then \
		echo '$@ is not installed, and there is no apt-get to install it with. Tests need Redis 7 or newer, Chromium, tmux, Node.js with npm, and python3-kubernetes; pictures need termtosvg.' >&2; exit 1; \
	fi; \
	sudo=; if [ "$$(id -u)" != 0 ]; then sudo=sudo; fi; set -ex; \
	$$sudo apt-get update; \
	$$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $@

.PHONY: fmt
fmt: ## Format all Go code
	$(GOLANGCI_LINT) fmt

LINT_MODULES := --fast-only

.PHONY: lint
lint: ## Run the linters of .golangci.yaml, go vet and the format check among them
	$(GOLANGCI_LINT) fmt --diff
	@# gosec and unparam report nothing about tests, see .golangci.yaml, but would need half of the time for them. They read what is shipped.
	$(GOLANGCI_LINT) run --disable gosec,unparam
	$(GOLANGCI_LINT) run --enable-only gosec,unparam,nolintlint --tests=false ./admission/... ./certs/... ./cmd/... ./manifests/... ./policy/... ./store/...
	@# Those that test this module name it by its place. Linters that need types would read all of Helm, Prometheus and
	@# cert-manager for four minutes: LINT_MODULES= lets them.
	@program=$$(go tool -modfile=.ci/tools/go.mod -n golangci-lint) && printf '%s\n' $(TESTED) | xargs -P 2 -I {} \
		sh -xc "cd {} && $$program run --allow-parallel-runners --config $(CURDIR)/.golangci.yaml --disable gomoddirectives $(LINT_MODULES)"

.PHONY: tidy
tidy: ## Bring every go.mod and go.sum up to date
	@for module in $(MODULES); do (set -x; go -C $$module mod tidy) || exit 1; done

.PHONY: verify-tidy
verify-tidy:
	@for module in $(MODULES); do (set -x; go -C $$module mod tidy -diff) || exit 1; done

GENERATE := $(CONTROLLER_GEN) object crd paths=./policy/v1alpha1
POLICIES := $(CRD_REF_DOCS) --renderer markdown --config .ci/policies/config.yaml --templates-dir .ci/policies \
	--source-path policy/v1alpha1
DASHBOARD := go -C test/alerts run ./dashboard
# The table of values in the chart's README, of the comments in values.yaml.
HELM_DOCS := go -C test/chart tool helm-docs --chart-search-root $(CURDIR)/manifests/chart --sort-values-order file --log-level warning

# The recommended quotas that the chart can install.
PRESETS := 100-nodes 1000-nodes 5000-nodes

.PHONY: generate
generate: ## Generate what is made of the API types, of what stores keep, of values.yaml and of records in docs, and the dashboard
	$(MSGP) -file store/serialized.go -o store/zz_generated.msgp.go
	$(MSGP) -file store/engine/encoding.go -o store/engine/zz_generated.msgp.go
	$(MSGP) -unexported -file admission/simulate/write.go -o admission/simulate/zz_generated.msgp.go
	$(GENERATE) output:crd:dir=manifests/crds output:object:dir=policy/v1alpha1
	cp manifests/crds/*.yaml manifests/chart/files/crds/
	$(POLICIES) --output-path docs/policies.md
	$(DASHBOARD) -out $(CURDIR)/manifests/dashboards/eventquota.json
	cp manifests/dashboards/eventquota.json manifests/chart/files/dashboards/
	cp manifests/alerts/prometheusrule.yaml manifests/chart/files/alerts/
	for nodes in $(PRESETS); do cp manifests/components/recommended-$$nodes/pod-lives.yaml manifests/chart/files/quotas/pod-lives-$$nodes.yaml || exit; done
	$(HELM_DOCS)
	go run ./test/bench render

.PHONY: verify-generate
verify-generate:
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && set -x && \
	$(MSGP) -file store/serialized.go -o "$$dir/zz_generated.msgp.go" && diff store/zz_generated.msgp.go "$$dir" && \
	$(MSGP) -file store/engine/encoding.go -o "$$dir/zz_generated.msgp.go" && diff store/engine/zz_generated.msgp.go "$$dir" && \
	$(MSGP) -unexported -file admission/simulate/write.go -o "$$dir/zz_generated.msgp.go" && diff admission/simulate/zz_generated.msgp.go "$$dir" && \
	rm "$$dir/zz_generated.msgp.go" && \
	$(GENERATE) output:crd:dir="$$dir/crds" output:object:dir="$$dir" && \
	diff -r -x Kustomization manifests/crds "$$dir/crds" && \
	diff -r manifests/chart/files/crds "$$dir/crds" && \
	diff policy/v1alpha1/zz_generated.deepcopy.go "$$dir/zz_generated.deepcopy.go" && \
	$(POLICIES) --output-path "$$dir/policies.md" && sed '/^<!-- figures: /,/^<!-- end -->/{//!d;}' docs/policies.md | diff - "$$dir/policies.md" && \
	$(DASHBOARD) -out "$$dir/eventquota.json" && \
	diff manifests/dashboards/eventquota.json "$$dir/eventquota.json" && \
	diff manifests/chart/files/dashboards/eventquota.json "$$dir/eventquota.json" && \
	diff manifests/chart/files/alerts/prometheusrule.yaml manifests/alerts/prometheusrule.yaml && \
	for nodes in $(PRESETS); do diff manifests/chart/files/quotas/pod-lives-$$nodes.yaml manifests/components/recommended-$$nodes/pod-lives.yaml || exit; done && \
	$(HELM_DOCS) --dry-run >"$$dir/README.md" && diff manifests/chart/README.md "$$dir/README.md"

# Pages have the figures of docs/bench.json and the results of docs/compatibility.json. That packages have changed since figures were
# measured is said, and with STRICT=-strict it is an error.
.PHONY: verify-figures
verify-figures:
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && set -x && \
	go run ./test/bench render -out "$$dir" $(STRICT) && set +x && \
	(cd "$$dir" && find . -name '*.md') | sort >"$$dir/pages" && \
	while read -r page; do \
		diff -u "$$page" "$$dir/$$page" || { echo "$$page is not what the records in docs say: make generate renders it" >&2; exit 1; }; \
	done <"$$dir/pages"

# What is shipped is put together, its policies do what their tests say, and its metrics are those that are documented. Whether an
# API server takes it is for the tests.
.PHONY: verify-shipped
verify-shipped:
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && set -x && go run ./test/manifests -version v0.0.0 -dir "$$dir"
	$(GO_TEST) ./admission/metrics -run 'TestMetrics(AreDocumented|PassPromlint)'
	cd test/readme && $(GO_TEST) -vet= -count=1 -skip 'TestPageCommands|TestRedisCommands' .
	$(GO_TEST) ./test/policies
	$(GO_TEST) ./test/manifests -run 'TestObjects|TestWebhookConfigurations|TestReleaseHas|TestImages'

# Functions that nothing calls, exported ones too, which the linter for unused code does not report. The rest is called from other
# modules, test/kwok and test/sink, and from generated code of test/walk.
CALLED_ELSEWHERE := ^test/otel/|^test/walk/record/|func: Audit.Admitted$$

.PHONY: verify-dead
verify-dead:
	@out=$$(mktemp) && trap 'rm -f "$$out"' EXIT && set -x && $(DEADCODE) -test ./... >"$$out" && { set +x; ! grep -vE '$(CALLED_ELSEWHERE)' "$$out"; }

# The sentences of pages, comments and messages, by the rules of .ci/prose/rules.yaml, whose own examples are checked first.
.PHONY: verify-prose
verify-prose:
	cd .ci/prose && $(GO_TEST) -vet= .
	go -C .ci/prose run . -root $(CURDIR)

# Every overlay and every set of values that the chart is tested with. .ci/kubelint/config.yaml has the reason of each finding that is
# accepted.
.PHONY: verify-kube-lint
verify-kube-lint:
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && set -x && \
	go run ./test/manifests -version v0.0.0 -dir "$$dir" && \
	(cd test/chart && $(GO_TEST) -short -count=1 -run TestVariantsRender . -variants "$$dir") && \
	go -C .ci/kubelint run . "$$dir"/*.yaml

.PHONY: verify-workflows
verify-workflows:
	$(ACTIONLINT)

.PHONY: verify
verify: verify-prose verify-workflows verify-figures lint verify-dead verify-tidy verify-generate verify-shipped verify-kube-lint ## Check format, lint, prose, go.mod, generated files and manifests; changes nothing

.PHONY: clean
clean: ## Remove what was built in the checkout
	rm -rf bin

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {print "\n" substr($$0, 5)} \
		/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
