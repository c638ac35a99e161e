# railbind: RDMA for Go that keeps the device you bound. `make help` lists the targets.

BIN     := bin
TESTS   := $(BIN)/test
# The examples that are installed programs: bin/rb-NAME.
PROGRAMS := rping explain doctor perf ucmatose udaddy mckey cmtime pingpong perftest many
# Those that the guide runs, under their own names.
SMALL    := dial serve kv copy rails discover
# The packages whose tests run again in the guest, where RDMA is.
GUEST   := ibv cm cm/internal/route
LINT    := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.12.2

export GOFLAGS ?= -buildvcs=false

.DEFAULT_GOAL := help
.PHONY: help build demo test unit guest-test matrix oracle changes hostile model churn faults soak race asan cgocheck fuzz lint bench bench-guest api api-coverage image-test containers dlopen clean packages

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

packages:
	@ci/packages build

build: packages ## build the programs to bin/
	@mkdir -p $(BIN)
	cd examples && for p in $(PROGRAMS); do go build -o ../$(BIN)/rb-$$p ./$$p || exit 1; done
	cd examples && go build -o ../$(BIN)/ $(addprefix ./,$(SMALL))

demo: build ## show the main job on real RDMA, in two Soft-RoCE guests
	@ci/demo

test: unit guest-test ## run all tests: on this host, then in the guest

unit: packages ## run the tests that need no RDMA
	go vet ./...
	cd examples && go vet ./...
	CGO_ENABLED=0 go build ./... && CGO_ENABLED=0 go vet ./...
	CGO_ENABLED=0 GOOS=darwin go build ./... && CGO_ENABLED=0 GOOS=darwin go vet ./...
	go test ./...
	cd examples && go test ./...
	go run ./ci/api ci/api/api.txt

guest-test: build ## run the tests on a real kernel, in Soft-RoCE guests
	@ci/guest-test

SEED   ?= 1
N      ?= 2000
FIRST  ?= 0
KERNEL ?= 6.1
TRANSPORT ?= rxe

oracle: packages ## compare predictions with the kernel: SEED=1 N=2000 KERNEL=6.1 TRANSPORT=rxe
	@mkdir -p $(TESTS)
	go test -c -o $(TESTS)/oracle.test ./cm/internal/oracle
	@RAILBIND_ORACLE_SEED=$(SEED) RAILBIND_ORACLE_N=$(N) RAILBIND_ORACLE_FIRST=$(FIRST) \
		ci/guest -kernel $(KERNEL) -transport $(TRANSPORT) -topo oracle -timeout 1h -- $(TESTS)/oracle.test -test.run '^TestOracle$$' -test.v -test.timeout 1h

changes: packages ## change the network between the steps of a connection: SEED=1 N=1000 KERNEL=6.1
	@mkdir -p $(TESTS)
	go test -c -o $(TESTS)/changes.test ./cm
	@RAILBIND_CHANGES_SEED=$(SEED) RAILBIND_CHANGES_N=$(N) \
		ci/guest -kernel $(KERNEL) -topo pair -timeout 1h -- $(TESTS)/changes.test -test.run '^Test(PairChanges.*|Changes.*)$$' -test.v -test.timeout 1h

model: packages ## random calls on random objects, from eight goroutines: SEED=1 N=2000 KERNEL=6.1
	@mkdir -p $(TESTS)
	RAILBIND_MODEL_SEED=$(SEED) RAILBIND_MODEL_N=$(N) go test -count=1 -run '^TestFakeModel$$' -v -timeout 1h ./ibv
	go test -c -o $(TESTS)/model.test ./cm
	@RAILBIND_MODEL_SEED=$(SEED) RAILBIND_MODEL_N=$(N) ci/guest -kernel $(KERNEL) -topo pair -timeout 2h -- \
		$(TESTS)/model.test -test.run '^TestPairModel$$' -test.v -test.timeout 2h

churn: packages ## make and close N objects: N=1000000 KERNEL=6.1
	@mkdir -p $(TESTS)
	RAILBIND_CHURN_N=$(N) go test -count=1 -run '^TestFakeChurn$$' -v -timeout 1h ./ibv
	go test -c -o $(TESTS)/churn.test ./cm
	@RAILBIND_CHURN_N=$(N) ci/guest -kernel $(KERNEL) -topo pair -timeout 5h -- \
		$(TESTS)/churn.test -test.run '^TestPairChurn$$' -test.v -test.timeout 5h

FLOOD ?= 10000

hostile: packages ## peers that break the rules, FLOOD=10000 connects of them: KERNEL=6.1 TRANSPORT=rxe
	@mkdir -p $(TESTS)
	go test -c -o $(TESTS)/hostile.test ./cm
	@RAILBIND_FLOOD=$(FLOOD) ci/guest -kernel $(KERNEL) -transport $(TRANSPORT) -topo pair -timeout 1h -- \
		$(TESTS)/hostile.test -test.run '^TestPairHostile' -test.v -test.timeout 1h

# faults runs ci/faults in two guests.
define faults
@mkdir -p $(TESTS)
go build -o $(TESTS)/faults ./ci/faults
@ci/guest -kernel $(KERNEL) -transport $(TRANSPORT) -topo rails -timeout 3h -mortal \
	-peer '$(TESTS)/faults agent' -ready 'ss -tln | grep -q :7980' -- $(TESTS)/faults run $(if $(ONLY),-only $(ONLY))
endef

faults: packages ## break what two hosts live on beneath connections with traffic: KERNEL=6.1 TRANSPORT=rxe ONLY=FAULT,FAULT
	$(faults)

DURATION ?= 30m

soak: packages ## traffic under faults drawn at random: DURATION=30m SEED=1 KERNEL=6.1 TRANSPORT=rxe
	$(faults) -soak $(DURATION) -seed $(SEED)

matrix: build ## run the tests on all kernels, transports, rdma-cores (MATRIX='6.1 siw 44': some)
	@ci/matrix $(MATRIX)

race: build ## run the guest tests under the race detector
	@ci/guest-test -race

asan: build ## run the guest tests under the address sanitizer
	@ci/guest-test -asan

cgocheck: build ## run the guest tests with GOEXPERIMENT=cgocheck2
	@ci/guest-test -cgocheck2

fuzz: ## fuzz the rule for a minute
	go test -run '^$$' -fuzz FuzzDecide -fuzztime 60s ./cm/policy

lint: packages ## check the style of Go and shell
	@ci/packages lint
	go run $(LINT) run ./...
	cd examples && go run $(LINT) run ./...
	shellcheck ci/guest ci/matrix ci/packages ci/guest-test ci/demo ci/image-test ci/containers ci/expect.sh ci/dlopen ci/topo/* .ci/run examples/cijob/run

bench: build ## take the figures of examples/perf/BENCHMARKS.md anew: SHORT=1, ONLY=SECTION,SECTION
	cd examples && go build -o ../$(BIN)/versus ./perf/versus && go build -o ../$(BIN)/figures ./perf/figures
	@$(BIN)/figures $(if $(SHORT),-short) -only '$(ONLY)'

bench-guest: ## the same, of the guest alone: rb-perf beside perftest and cmtime, and growth
	@$(MAKE) bench ONLY=latency,sends,connect,growth-guest,bandwidth

# What may be unaccounted for at most, and must be covered at least (percent):
# never less than what was reached.
UNACCOUNTED ?= 0
# The headers of the newest rdma-core, where ci/guest -rdma-core 65 has run.
NEWEST := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/railbind/rdma-core-65/root/usr/include
COVERED     ?= 96

api-coverage: packages ## count the functions of librdmacm and libibverbs that are covered
	go run ./ci/apicoverage -unaccounted $(UNACCOUNTED) -covered $(COVERED)
	@if [ -d '$(NEWEST)/infiniband' ]; then echo "rdma-core 65:"; \
		go run ./ci/apicoverage -include '$(NEWEST)' -unaccounted $(UNACCOUNTED) -covered $(COVERED); fi

api: ## write down what is exported, anew: ci/api/api.txt
	@mkdir -p $(BIN)
	go run ./ci/api >$(BIN)/api.txt && mv $(BIN)/api.txt ci/api/api.txt

dlopen: packages ## build with the tag rdma_dlopen, and run with and without rdma-core
	@ci/dlopen

containers: build ## run the programs in containers, in Soft-RoCE guests
	@ci/containers

image-test: ## build the container image without a registry, and try it in the same way
	@ci/image-test

clean: ## remove what was built here (the guest's cache stays)
	rm -rf $(BIN)
