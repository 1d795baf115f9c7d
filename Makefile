# Everything that one does with this project; `make help` lists it.
SHELL := /bin/bash
SANDBOX := .sandbox/bin/sandbox
GO_SOURCES := $(shell git ls-files -co --exclude-standard '*.go' 'go.mod' 'go.sum')

.DEFAULT_GOAL := help
.PHONY: test-chaos test-crash release test-releases test-release bench-transfer help demo packages setup payload build lint fuzz bench-join clean test-collection test-plugins test-wmcb test-molecule test-mistakes test-interrupt test-all \
	sandbox-programs sandbox sandbox-down sandbox-status sandbox-reboot test test-quick test-sandbox vet shellcheck generate

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

packages: ## install the Debian packages that the sandbox needs
	@scripts/install-packages.sh

$(SANDBOX): $(filter molecule/sandbox/%,$(GO_SOURCES))
	CGO_ENABLED=0 go build -C molecule/sandbox -o ../../$(SANDBOX) ./cmd/sandbox

sandbox-programs: packages $(SANDBOX) ## build the control plane and containerd.exe into .sandbox/bin
	$(SANDBOX) build

sandbox: packages $(SANDBOX) ## build and start the sandbox (SANDBOX_HOSTS=2)
	$(SANDBOX) up

demo: setup payload build sandbox ## build the sandbox, join its Windows hosts, show the nodes
	@scripts/demo.sh

sandbox-down: $(SANDBOX) ## end the sandbox
	$(SANDBOX) down

sandbox-status: $(SANDBOX) ## say what of the sandbox runs
	$(SANDBOX) status

sandbox-reboot: $(SANDBOX) ## reboot a Windows host of the sandbox, HOST=winhost1
	$(SANDBOX) reboot $(HOST)

generate: ## generate the documentation that comes from code
	go generate ./internal/reason ./internal/variables

vet: ## look at the code as both systems see it
	go vet ./...
	GOOS=windows go build ./cmd/wmcb && rm -f wmcb.exe
	cd molecule/sandbox && go vet ./... && go vet -tags sandbox ./...

setup: packages ## install everything: Debian packages, .venv (ansible-core 2.19), .venv-2.16
	@scripts/setup-venvs.sh

payload: ## build kubelet.exe, kube-log-runner.exe and wmcb.exe into build/payload
	@scripts/build-payload.sh

build: ## assemble the collection into build/ansible_collections
	@scripts/build-collection.sh

test-collection: setup build sandbox-programs ## run modules as Ansible does, under both ansible-cores (root)
	tests/collection.sh

GOLANGCI := build/bin/golangci-lint

$(GOLANGCI): tools/go.mod tools/go.sum
	go build -C tools -o ../$(GOLANGCI) github.com/golangci/golangci-lint/v2/cmd/golangci-lint

lint: setup build shellcheck $(GOLANGCI) ## all linters
	$(GOLANGCI) run ./...
	GOOS=windows $(GOLANGCI) run --tests=false ./cmd/wmcb/... ./internal/wmcb/... ./internal/winservice/... ./internal/winsystem/... ./internal/securefile/... ./internal/firewall/... ./internal/store/... ./internal/transaction/...
	cd molecule/sandbox && ../../$(GOLANGCI) run --config ../../.golangci.yml ./...
	.venv/bin/yamllint --strict .
	PATH=$(CURDIR)/.venv/bin:$$PATH ansible-lint --offline

shellcheck: ## look at the scripts
	shellcheck -x scripts/*.sh tests/*.sh .ci/run

test-quick: ## unit tests that need nothing but Go
	go test ./...
	cd molecule/sandbox && go test ./...

test-sandbox: setup sandbox-programs ## the sandbox's own tests: a control plane and Windows hosts, started and ended (root)
	.venv-sandbox/bin/python -m pytest -q molecule/sandbox/winrm
	cd molecule/sandbox && SANDBOX_CONTAINERD=$(CURDIR)/.sandbox/bin/containerd.exe go test -count=1 -tags sandbox ./internal/lifecycle ./winhost

test-plugins: setup ## the action plugins' unit tests, under both ansible-cores
	.venv/bin/python -m pytest -q tests/unit
	.venv-2.16/bin/python -m pytest -q tests/unit

test-wmcb: sandbox-programs payload ## wmcb's own tests on a Wine host, with the real kubelet.exe, short crash matrix and all (root)
	tests/wmcb.sh

test-molecule: setup payload build sandbox-programs ## the main scenario under both ansible-cores; WinRM by every login; SSH and WinRM in one inventory (root)
	tests/molecule.sh .venv default
	tests/molecule.sh .venv-2.16 default
	tests/molecule.sh .venv winrm
	tests/molecule.sh .venv mixed

test-mistakes: setup payload build sandbox-programs ## the mistakes that users make (root)
	tests/mistakes.sh

test-interrupt: setup payload build sandbox-programs ## interrupt the join at many moments (root); MOMENTS="INT:3 KILL:5"
	tests/interrupt.sh $(MOMENTS)

test-chaos: setup payload build sandbox-programs ## cut, silence and damage transfers on both transports (root); CUTS=20
	tests/chaos.sh $(or $(CUTS),20)

test-crash: sandbox-programs payload ## kill wmcb.exe at every boundary of five commands, and 50 times at random (root, most of an hour)
	WSU_TEST_CRASH=long tests/wmcb.sh -test.v -test.run Killed

fuzz: ## fuzz each parser of hostile input for FUZZTIME (10s)
	scripts/fuzz.sh $(FUZZTIME)

release: ## build the release that release.yml names into build/release/VERSION
	@scripts/build-release.sh $(VERSION)

test-releases: setup ## build releases of several versions, and broken ones, into build/releases
	@scripts/build-test-releases.sh $(VERSIONS)

test-release: setup ## build a release twice and look at it as a user does
	tests/releases.sh

bench-transfer: setup payload build sandbox-programs ## transfers beside sftp, scp, Ansible's winrm and winrmcp (root); CASE=ssh|random|winrm|delta|nothing|many
	tests/bench-transfer.sh $(CASE)

bench-join: setup payload build sandbox-programs ## what a join costs the control host, beside Ansible alone (root)
	tests/bench-join.sh

test: lint vet sandbox-programs payload ## every test
	WSU_TEST_KUBE_BIN=$(CURDIR)/.sandbox/bin WSU_TEST_WINRM=$(CURDIR)/.venv-sandbox/bin/python go test ./...
	cd molecule/sandbox && go test ./...
	$(MAKE) test-plugins
	$(MAKE) fuzz FUZZTIME=5s
	$(MAKE) test-sandbox
	$(MAKE) test-collection
	tests/wmcb.sh -test.skip Killed
	$(MAKE) test-molecule
	$(MAKE) test-mistakes
	$(MAKE) test-interrupt MOMENTS="INT:4 KILL:5"

test-all: test ## every test, and the longer matrices
	tests/mistakes.sh .venv-2.16
	tests/molecule.sh .venv-2.16 winrm
	$(MAKE) test-interrupt
	$(MAKE) test-chaos CUTS=200
	$(MAKE) test-release
	$(MAKE) test-crash
	$(MAKE) fuzz FUZZTIME=60s

clean: sandbox-down ## delete what was built; Go's caches stay
	rm -rf build .sandbox .venv .venv-2.16 .venv-sandbox
