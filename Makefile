# What can be asked of this project; `make help` lists it.

export PATH := $(PATH):$(HOME)/.cargo/bin:/usr/local/sbin:/usr/sbin:/sbin
SHELL := /bin/bash

# For `make install`.
PREFIX  ?= /usr/local
DESTDIR ?=
# How many fault schedules `make test` and `make soak` run, and the first seed.
SEED    ?= 0
# How long `make fuzz` spends on each target.
FUZZ_SECONDS ?= 60
# How long `make soak-lab` and `make soak-busy` last, each.
MINUTES ?= 30
LAB_SOAK = cargo build --quiet --release -p tabane && \
	cargo run --quiet --release -p tabane-bench --bin soak -- --minutes $(MINUTES) \
	$(if $(filter file,$(origin SEED)),,--seed $(SEED))
# Options for the programs behind `make demo` and `make bench`.
ARGS ?=

# Without cargo (`sudo make install`) it is where cargo puts it by itself.
TARGET = $(or $(shell cargo metadata --format-version 1 --no-deps 2>/dev/null | \
	sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p'),$(CURDIR)/target)
BINARY = $(TARGET)/$(if $(RUST_TARGET),$(RUST_TARGET)/)release/tabane
# Of `make deb` and `make rpm`.
PACKAGES = $(TARGET)/packages
# For another machine than this one: RUST_TARGET=aarch64-unknown-linux-gnu, what links for it, and what runs its programs.
RUST_TARGET ?=
RUNNER =
ifneq ($(shell uname -m),aarch64)
RUN_ARM64 = qemu-aarch64 -L /usr/aarch64-linux-gnu
RUNNER = $(if $(filter aarch64-%,$(RUST_TARGET)),$(RUN_ARM64))
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER = aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER = $(RUN_ARM64)
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER = aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER = qemu-aarch64
export CC_aarch64_unknown_linux_musl = aarch64-linux-gnu-gcc
endif
# For `make static`: the target that links the C library in. Without it,
# STATIC_TARGET= takes the C library of this machine (glibc) instead.
STATIC_TARGET ?= $(shell uname -m)-unknown-linux-musl

.DEFAULT_GOAL := help
.PHONY: help setup build demo test soak soak-tests soak-sim soak-lab soak-busy soak-doctor bench figures lint audit miri sanitize fuzz \
	man deb rpm static release soak-packages soak-first-contact test-arm64 install uninstall clean

help: ## list what can be asked
	@sed -n 's/^\([a-z0-9-]*\):[^#]*## \(.*\)/  make \1 \2/p' $(MAKEFILE_LIST) | \
		awk '{ word = $$2; $$1 = $$2 = ""; printf "  make %-18s%s\n", word, $$0 }'

setup: ## install what building, tests, demo and bench need (apt; nothing if all is there)
	@tools/setup.sh

# The library by itself: only so is it optimised as a whole.
CARGO_RUSTC = cargo rustc --release $(if $(RUST_TARGET),--target $(RUST_TARGET)) --crate-type cdylib --lib
BUILD = cargo build --release $(if $(RUST_TARGET),--target $(RUST_TARGET)) -p tabane && \
	$(CARGO_RUSTC) -p tabane-capi && \
	$(CARGO_RUSTC) -p tabane-vipl && \
	$(CARGO_RUSTC) -p tabane-fabric

build: ## build the program `tabane`, the libraries for C, the provider of libfabric; installs a C compiler if there is none
	@tools/setup.sh $(if $(RUNNER),arm64,build)
	@$(if $(RUST_TARGET),tools/rust-target.sh $(RUST_TARGET))
	$(BUILD)

demo: ## two nodes, two switches, one iperf3: watch a switch die (some minutes to build, then one)
	@tools/setup.sh demo
	cargo build --release -p tabane --bin tabane
	@cargo run --quiet --release -p tabane --bin tabane -- demo $(ARGS)

test: ## every test, most as root and as an ordinary user; 10,000 fault schedules
	@tools/setup.sh test
	@SEED=$(SEED) tools/test.sh

soak: soak-tests soak-sim soak-lab soak-busy soak-doctor soak-packages soak-first-contact ## the long runs one after another: hours

soak-tests: ## every test, all that build a lab also as an ordinary user
	@tools/setup.sh test
	@SEED=$(SEED) ONCE= tools/test.sh

soak-sim: SCHEDULES ?= 1000000
soak-sim: setup ## SCHEDULES=1000000 SEED=0: fault schedules in the simulator
	cargo run --quiet --release -p tabane-sim --bin sim -- run \
		--seeds $(SEED)..$$(( $(SEED) + $(SCHEDULES) ))
	cargo run --quiet --release -p tabane-sim --bin sim -- churn \
		--seeds $(SEED)..$$(( $(SEED) + $(SCHEDULES) / 100 + 1 ))
	TABANE_SIM_ROUNDS=$$(( $(SCHEDULES) / 50000 + 1 )) TABANE_SIM_PARTITIONS=$$(( $(SCHEDULES) / 100 + 100 )) \
		TABANE_SIM_MOVES=$$(( $(SCHEDULES) / 200 + 40 )) cargo test --quiet --release -p tabane --lib gateway::node

soak-lab: ## MINUTES=30 SEED=(any): clusters of unmodified programs, then random faults in the lab under others
	@tools/setup.sh soak
	cargo test --quiet -p tabane --test clusters --test failing_calls_all -- --test-threads 1
	$(LAB_SOAK) --links 3 $(ARGS)

soak-busy: setup ## MINUTES=30: the same without faults, all processors kept busy
	$(LAB_SOAK) --busy $(ARGS)

bench: ## tabane beside TCP, MPTCP and balance-rr; ARGS='--help' has what can be chosen
	@tools/setup.sh bench
	cargo build --quiet --release -p tabane -p tabane-sim -p tabane-fabric
	cargo build --quiet --release -p tabane-rank --example exchange
	cargo run --quiet --release -p tabane-bench --bin bench -- $(ARGS)

figures: ## figures/ and docs/plots, of one run of this commit: hours
	@$(MAKE) --no-print-directory bench ARGS="--out figures --plots docs/plots $(ARGS)"

lint: ## clippy, formatting, licences of dependencies, the rules of the house
	@tools/setup.sh lint
	@tools/lint.sh

audit: ## known vulnerabilities of dependencies (fetches the advisory database)
	@tools/setup.sh lint
	@tools/audit.sh

miri: ## the parts of the protocol that Miri can run (needs nightly Rust with miri)
	@tools/miri.sh

sanitize: ## the tests of system calls under AddressSanitizer
	@tools/sanitize.sh

fuzz: ## FUZZ_SECONDS=60: feed noise to everything that reads foreign bytes
	@FUZZ_SECONDS=$(FUZZ_SECONDS) tools/fuzz.sh

man: build ## manual pages and shell completions, into target/release/generated
	rm -rf $(TARGET)/release/generated
	$(BINARY) generate $(TARGET)/release/generated

deb: build ## Debian packages, into target/packages
	@tools/setup.sh deb
	@RUNNER="$(RUNNER)" tools/deb.sh $(BINARY) $(PACKAGES) $(RUST_TARGET)

rpm: build ## RPM packages, into target/packages
	@tools/setup.sh rpm
	@RUNNER="$(RUNNER)" tools/rpm.sh $(BINARY) $(PACKAGES) $(RUST_TARGET)

static: ## one file that needs no library: for rescue systems, containers, other distributions
	@tools/setup.sh pack
	@STATIC_TARGET=$(STATIC_TARGET) tools/static.sh

release: ## packages for amd64 and arm64, static programs, source, SHA256SUMS into target/release-VERSION; SKIP='PART…'
	@SKIP="$(SKIP)" tools/release.sh $(TARGET)

soak-doctor: setup ## as root: 60 faults in the lab, which tabane doctor is to name where they lie, and 40 clusters that are only odd
	@cargo build --quiet --release -p tabane
	@tools/try-doctor.py $(BINARY)

soak-packages: ## SUITES='bookworm trixie': as root, install packages into fresh systems, use and remove them; systemd, Ansible, cloud-init
	@tools/setup.sh packages
	@rm -rf $(TARGET)/soak-packages
	@$(MAKE) --no-print-directory PACKAGES=$(TARGET)/soak-packages deb rpm
	@SUITES="$(SUITES)" tools/try-packages.sh $(BINARY) $(TARGET)/soak-packages

soak-first-contact: ## SUITES='bookworm trixie': as root, what README says first, on bare systems: packages, MB, build and run time
	@tools/setup.sh packages
	@SUITES="$(SUITES)" tools/try-first-contact.sh

test-arm64: ## tests of the protocol, and SCHEDULES=20 fault schedules, as programs for arm64 (emulated on other machines)
	@tools/setup.sh arm64
	@tools/rust-target.sh aarch64-unknown-linux-gnu
	cargo test --quiet --release --target aarch64-unknown-linux-gnu -p tabane-proto --lib --tests
	cargo run --quiet --release --target aarch64-unknown-linux-gnu -p tabane-sim --bin sim -- run \
		--seeds $(SEED)..$$(( $(SEED) + $(or $(SCHEDULES),20) ))

install: ## PREFIX=/usr/local: install program, library, manual, documents, completions, systemd unit
	@if command -v cargo >/dev/null; then $(BUILD); fi
	@DESTDIR=$(DESTDIR) PREFIX=$(PREFIX) tools/install.sh install $(BINARY)

uninstall: ## remove it again; /etc/tabane stays
	@DESTDIR=$(DESTDIR) PREFIX=$(PREFIX) tools/install.sh uninstall $(BINARY)

clean: ## remove what was built
	cargo clean
