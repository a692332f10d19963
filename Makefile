# Sandbar. `make` alone prints what there is.
SHELL := /bin/bash -o pipefail
.DEFAULT_GOAL := help
.SUFFIXES:

# The local stack that a target uses: dev for people, test for tests, so that one does not
# disturb the other.
STACK ?= dev
FUZZTIME ?= 10s
GO ?= go
# A tool's program, which Go builds and keeps. Not run by `go tool`, which ends with 0 when the tool
# is killed: by the kernel for its memory, say, and then a lint that never ended would have passed.
tool = $$($(GO) tool -n -modfile=$(CURDIR)/hack/tools/go.mod $(1))
STACKCMD := $(GO) -C hack/stack run .
# The suite's own stack keeps nothing, and has two CPUs on every machine.
UPFLAGS = $(if $(filter test,$(STACK)),--for-tests)
MODULES := . hack/stack hack/stack/mutagen hack/openid hack/krew
# Tested without the race detector as well: pkg/rawconn is another one with it, and models of one goroutine
# explore what would take it minutes.
WITHOUTRACE := ./pkg/rawconn ./providers/infrastructure/instance
# Where a run of the suite puts its report and what go test -json prints.
RUNS := $(CURDIR)/bin/tests
# REPORT=FILE has tests add their results to a report (hack/gotest).
REPORT ?=
gotest = $(CURDIR)/bin/gotest -stage $(1) -events $(RUNS)/$(1)$(2).json $(if $(REPORT),-report $(REPORT))

##@ Start here
.PHONY: demo
demo: deps ## Do what a newcomer would, on a real kcp, a real Kubernetes node and kro (STACK=dev)
	@hack/deps.sh slirp4netns:slirp4netns || echo "without slirp4netns sandboxes reach no registry" >&2
	@$(GO) run ./hack/demo --stack $(STACK)

.PHONY: demo-mesh
demo-mesh: deps ## A shop of three services, a copy of one for each of two people, and one address for all (STACK=dev)
	@$(GO) run ./hack/demo --mesh --stack $(STACK)

.PHONY: demo-byo
demo-byo: deps ## Two providers in one kcp, two tenants and one program (STACK=dev)
	@$(GO) run ./hack/demo --byo --stack $(STACK)

.PHONY: install
install: ## Put sandbar and kubectl-sandbar on the PATH (BINDIR=/usr/local/bin for root, else Go's own)
	@GO=$(GO) hack/install.sh $(BINDIR)

.PHONY: test
test: ## Unit, integration and end-to-end tests, on a stack of their own
	@hack/test.sh

.PHONY: test-all
test-all: deps ## make test beside load, and what waits by design, breaks shared parts, or needs minutes or the network (FROM=stage to go on, ONLY=stage)
	@hack/test-all.sh "$(FROM)" "$(ONLY)"

##@ The local stack
# Built outside of any test, with no limit of time; beside the unit tests they let those go first.
.PHONY: parts
parts: deps ## Build what a stack consists of, about 15 minutes on two cores when nothing is built
	@hack/background.sh $(STACKCMD) build >/dev/null
	@hack/background.sh $(STACKCMD) images build >/dev/null

.PHONY: up
up: deps ## Build what is missing and start kcp, a Kubernetes node and kro (STACK=dev)
	@$(STACKCMD) up --name $(STACK) $(UPFLAGS)

.PHONY: online
online: ## Give the sandboxes of a stack that is up a way to the internet (STACK=dev)
	@hack/deps.sh slirp4netns:slirp4netns
	@$(STACKCMD) online --name $(STACK)

.PHONY: gateway
gateway: ## Run Traefik as the Gateway API controller of a stack that is up (STACK=dev DOMAIN=gateway.test), some minutes to build
	@$(STACKCMD) gateway --name $(STACK) $(or $(DOMAIN),gateway.test)

.PHONY: down
down: ## Stop all of it and leave nothing (STACK=dev)
	@$(STACKCMD) down --name $(STACK)

.PHONY: status
status: ## Show what runs and where (STACK=dev)
	@$(STACKCMD) status --name $(STACK)

##@ Tests
# The packages of a module, those first whose tests take minutes: begun last, they would run alone in the end.
packages = { $(GO) list ./dataplane ./cmd/sandbar/develop ./providers/infrastructure/instance 2>/dev/null; $(GO) list ./... | grep -v /e2e; } | awk '!seen[$$0]++'

.PHONY: test-unit
test-unit: deps gotest ## Unit tests of all modules, with the race detector
	@for m in $(MODULES) hack/tools; do (cd $$m && echo "== unit tests in $$m" >&2 && \
		$(call gotest,unit,-$$(basename $$m)) -- -race -timeout 0 -- $$($(packages))) || exit 1; done
	@$(call gotest,unit,-plain) -- -timeout 0 -- $(WITHOUTRACE)

.PHONY: gotest
gotest:
	@$(GO) build -o bin/gotest ./hack/gotest

# Before a failed test is run once more: a stack whose parts all run.
stackruns = $(STACKCMD) status --name $(STACK) >/dev/null || { echo "not all of the stack runs: starting what does not"; $(STACKCMD) up --name $(STACK) $(UPFLAGS); }

.PHONY: test-integration
test-integration: up gotest ## Tests of single parts against the real kcp, API server and kro
	@eval "$$($(STACKCMD) env --name $(STACK))" && SANDBAR_STACK=$(STACK) $(call gotest,integration) -each -before '$(stackruns)' -- -count=1 -timeout 0 -parallel 6 -tags integration -- \
		$$(git grep -l '^//go:build integration' -- '*_test.go' | xargs -n1 dirname | sort -u | sed 's,^,./,')

.PHONY: test-e2e
test-e2e: up browser gotest ## The promises of the whole, tenant to pod, each named (RUN=TestDrain for some)
	@eval "$$($(STACKCMD) env --name $(STACK))" && SANDBAR_STACK=$(STACK) $(call gotest,e2e) -each -quarantine e2e/quarantine.txt -before '$(stackruns)' -- -count=1 -timeout 0 -tags e2e $(if $(RUN),-run='$(value RUN)') -- ./e2e

.PHONY: test-long
test-long: up browser ## End-to-end tests that make test leaves out (RUN=TestLifecycleUnderChaos for some)
	@SANDBAR_LONG=1 $(MAKE) --no-print-directory STACK=$(STACK) RUN='$(value RUN)' test-e2e

.PHONY: test-stack
test-stack: parts ## Two stacks side by side, one killed, and nothing left behind (root)
	@cd hack/stack && STACK_E2E=1 $(GO) test -count=1 -timeout 0 -run 'TestRoot' ./...

# Of one goroutine each, so that the race detector finds nothing unless somebody changes that.
.PHONY: race-models
race-models: gotest ## The models that make test runs without the race detector, with it
	@$(call gotest,race-models) -- -race -timeout 0 -tags racemodels -- ./providers/infrastructure/instance

.PHONY: krew
krew: kubectl ## Build a release, install its plugin with krew for each platform, and run it by kubectl
	@SANDBAR_RELEASE=1 KUBECTL=$(CURDIR)/bin/kubectl $(GO) -C hack/krew test -count=1 -timeout 0 -v -run '^TestAReleaseIsInstalledByKrew$$' .

.PHONY: soak
soak: ## The runner's confinement attacked, and both sides edited while everything breaks, a minute each
	@SANDBAR_TEST_ATTACK_TIME=60s $(GO) test -race -count=1 -v -run 'TestExchanging' ./runner/workspace
	@SANDBAR_PROPERTY_SECONDS=60 $(GO) test -race -count=1 -v -run 'TestAfterAnyFailure' ./client/devsync

.PHONY: fuzz
fuzz: ## Every fuzz target for FUZZTIME (10s) each
	@hack/background.sh hack/fuzz.sh $(FUZZTIME)

##@ Benchmarks
.PHONY: bench
bench: bench-create bench-claim bench-proxy bench-relay bench-memory bench-authz bench-lifecycle bench-fairness bench-sync bench-logs bench-exec bench-cli bench-mesh ## All benchmarks

.PHONY: bench-create
bench-create: up ## Create to Ready of a SandboxRunner next to a bare kro instance, in one run
	@eval "$$($(STACKCMD) env --name $(STACK))" && $(GO) run ./bench/create --stack $(STACK)

.PHONY: bench-claim
bench-claim: up ## Create to Ready of a Sandbox that a SandboxSet has ready next to a cold one and to agent-sandbox, in one run
	@$(GO) run ./bench/claim --stack $(STACK)

.PHONY: bench-proxy
bench-proxy: up rivals ## Requests through the data plane next to nginx, Go's reverse proxy and the API server, in one run
	@$(GO) build -o bin/bench-proxy ./bench/proxy && bin/bench-proxy --stack $(STACK)

.PHONY: bench-authz
bench-authz: up ## What asking kcp costs: a first request, a kept answer, and questions per thousand requests
	@$(GO) build -o bin/bench-authz ./bench/authz && bin/bench-authz --stack $(STACK)

.PHONY: bench-relay
bench-relay: up rivals ## Upgraded connections through the data plane next to straight ones, and 10,000 idle ones
	@$(GO) run ./bench/relay --stack $(STACK)

.PHONY: bench-memory
bench-memory: up ## Memory of a serve process: at rest, per stream, per thousand instances
	@$(GO) run ./bench/memory --stack $(STACK)

.PHONY: bench-lifecycle
bench-lifecycle: up ## Suspend, resume and wake next to scaling the same Deployment by hand, and what a sleeping instance costs
	@$(GO) run ./bench/lifecycle --stack $(STACK)

.PHONY: bench-fairness
bench-fairness: ## A tenant's p99 while another is attacking, against its p99 without, on loopback
	@SANDBAR_FAIRNESS=1 $(GO) test -count=1 -v -timeout 10m -run '^TestFairness$$' ./dataplane | grep -E '^(BENCH|FAIL|ok|panic)'

.PHONY: bench-sync
bench-sync: up ## From a saved file to the sandbox, next to mutagen and to tar through the pod's exec, in one run
	@$(GO) build -o bin/bench-sync ./bench/sync && bin/bench-sync --stack $(STACK) && \
		bin/bench-sync --stack $(STACK) --files 50000 --turns 1 --large 0 --checkout 0 --skip tar,mutagen-poll

.PHONY: bench-logs
bench-logs: up ## From a printed line to its reader, throughput, and a hundred followers across a killed runner
	@$(GO) build -o bin/bench-logs ./bench/logs && bin/bench-logs --stack $(STACK)

.PHONY: bench-exec
bench-exec: up ## From asking for a command to its exit code, next to the exec of the pod
	@$(GO) build -o bin/bench-exec ./bench/exec && bin/bench-exec --stack $(STACK)

.PHONY: bench-cli
bench-cli: up build kubectl ## Start of the command line, and a list of 1,000 objects next to kubectl's, in one run
	@$(GO) run ./bench/cli --stack $(STACK)

.PHONY: bench-mesh
bench-mesh: rivals ## What the proxy in front of a Service adds to a request, next to nginx and Go's reverse proxy, on loopback
	@$(GO) build -o bin/bench-mesh ./bench/mesh && bin/bench-mesh

# kubectl as people have it: the node's, which the stack has, is one program with the API server and the kubelet, and
# starts more slowly. The flags are the node's, so that its packages are not compiled again.
.PHONY: kubectl
kubectl:
	@GOWORK=off GOFLAGS='-mod=readonly -buildvcs=false' CGO_ENABLED=1 $(GO) -C hack/node build -trimpath -ldflags='-s -w' -o $(CURDIR)/bin/kubectl k8s.io/kubernetes/cmd/kubectl

##@ Development
.PHONY: build
build: ## Build the binaries into bin/, with the version that hack/version.sh prints
	@CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w -X main.version=$$(hack/version.sh)" -o bin/ ./cmd/...

.PHONY: dist
dist: ## Archives of the command line for each platform, with krew's manifest, into dist/, of a commit that is tagged
	@GO=$(GO) hack/dist.sh

.PHONY: images
images: deps ## Build the images of Sandbar, the toolchains and the samples as OCI archives (IMAGES="toolchain-node …" for some)
	@$(STACKCMD) images build $(IMAGES)

.PHONY: generate
generate: ## Generate deepcopy functions, CRDs, the rules of the RBAC roles and the pictures of terminals
	@$(call tool,controller-gen) object paths=./apis/v1alpha1/ crd paths=./apis/v1alpha1/ output:crd:dir=apis/crds
	@$(call tool,controller-gen) crd:maxDescLen=0 paths=./pkg/podtemplate/ output:crd:dir=pkg/podtemplate/schema
	@$(call tool,controller-gen) crd paths=./pkg/clone/ output:crd:dir=pkg/clone/schema
	@rm -f install/rbac/*/zz_generated.role.yaml
	@for role in $(notdir $(wildcard install/rbac/*)); do $(call tool,controller-gen) rbac:roleName=sandbar-$$role,fileName=zz_generated.role.yaml \
		paths=./install/rbac/$$role/ output:rbac:dir=install/rbac/$$role || exit 1; done
	@$(MAKE) --no-print-directory screens

.PHONY: verify
verify: deps ## Fail when generated files, goldens, documents or modules are stale, the house's rules are broken, or something does not compile for macOS or Windows
	@$(GO) test ./hack/house ./templates ./install ./cmd/sandbar ./providers/infrastructure/frozen ./providers/infrastructure/compound
	@$(GO) test ./dataplane -run 'Limits|Doc|Link|Table'
	@hack/verify.sh $(MODULES)
	@$(GO) -C hack/tools run ./typecheck -C $(CURDIR) darwin/arm64 windows/amd64

.PHONY: lint
lint: deps ## golangci-lint over all modules
	@for m in $(MODULES); do (cd $$m && echo "== lint $$m" && $(call tool,golangci-lint) run --allow-serial-runners --build-tags e2e,integration -c $(CURDIR)/.golangci.yml ./...) || exit 1; done

.PHONY: vuln
vuln: ## govulncheck (needs the Go vulnerability database over the network)
	@$(call tool,govulncheck) ./...

.PHONY: fmt
fmt: ## Format all Go code
	@for m in $(MODULES); do (cd $$m && $(call tool,golangci-lint) fmt -c $(CURDIR)/.golangci.yml ./...) || exit 1; done

# People run the client and the command line on macOS and Windows too, and an operator may run init from
# there. The runner, the benchmarks and the local stack are for Linux, as are the tests of the whole data
# plane and those that start a runner; they have a build tag.
.PHONY: vet-others
vet-others: ## go vet for macOS and Windows, with the tests that run there
	@for os in darwin/arm64 windows/amd64; do echo "== vet for $$os" && \
		GOOS=$${os%/*} GOARCH=$${os#*/} CGO_ENABLED=0 $(GO) vet ./... || exit 1; done

.PHONY: loc
loc: ## Lines of Go per folder: product, test, bench and stack; comments and blank lines apart
	@$(GO) run ./hack/loc

.PHONY: deps
deps:
	@hack/deps.sh

# Unit tests put these in front of the data plane, and copy files by the last, where they are installed.
.PHONY: fronts
fronts:
	@hack/deps.sh nginx:nginx haproxy:haproxy varnishd:varnish busybox:busybox

# Unit tests try the completion of the command line in them.
.PHONY: shells
shells:
	@hack/deps.sh bash:bash /usr/share/bash-completion/bash_completion:bash-completion zsh:zsh fish:fish

# Benchmarks measure these next to the data plane.
.PHONY: rivals
rivals:
	@hack/deps.sh nginx:nginx-light

# What people see, from the real thing; look at each before you commit it.
.PHONY: pngquant
pngquant:
	@hack/deps.sh pngquant:pngquant

.PHONY: pictures
pictures: up browser pngquant ## Take the pictures of docs/pictures anew
	@eval "$$($(STACKCMD) env --name $(STACK))" && shots=$$(mktemp -d) && export SCREENSHOTS=$$shots SANDBAR_STACK=$(STACK) && \
	  SANDBAR_LONG=1 $(GO) test -count=1 -timeout 0 -tags e2e ./e2e/... -run TestDevOfAnNPMProject && \
	  $(GO) test -count=1 -timeout 0 -tags e2e ./e2e/... -run TestWakeOnRequest/a_browser && $(GO) test -count=1 -timeout 0 -tags e2e ./e2e/... -run '^TestAppStudio$$' && for p in dev dev-crash waking not-listening appstudio; do pngquant 64 --output docs/pictures/$$p.png --force $$shots/$$p.png || exit 1; done; code=$$?; rm -rf $$shots; exit $$code

# No terminal is recorded: the command line's tests compare the texts that these show.
.PHONY: screens
screens: ## Draw the pictures of terminals in docs/pictures from golden files of tests
	@$(GO) run ./hack/screens

# The end-to-end tests of previews open them in a real browser; npm makes the projects that some of them show.
.PHONY: browser
browser:
	@hack/deps.sh chromium:chromium certutil:libnss3-tools npm:npm

.PHONY: help
help: ## This text
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
