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
BINARY = $(TARGET)/release/tabane
# For `make static`: the target that links the C library in. Without it,
# STATIC_TARGET= takes the C library of this machine (glibc) instead.
STATIC_TARGET ?= $(shell uname -m)-unknown-linux-musl

.DEFAULT_GOAL := help
.PHONY: help setup build demo test soak soak-tests soak-sim soak-lab soak-busy bench figures lint audit miri sanitize fuzz \
	man deb static install uninstall clean

help: ## list what can be asked
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1 \2/p' $(MAKEFILE_LIST) | \
		awk '{ word = $$2; $$1 = $$2 = ""; printf "  make %-10s%s\n", word, $$0 }'

setup: ## install what building, tests, demo and bench need (apt; nothing if all is there)
	@tools/setup.sh

# The library by itself: only so is it optimised as a whole.
BUILD = cargo build --release -p tabane && \
	cargo rustc --release -p tabane-capi --lib --crate-type cdylib && \
	cargo rustc --release -p tabane-vipl --lib --crate-type cdylib && \
	cargo rustc --release -p tabane-fabric --lib --crate-type cdylib

build: ## build the program `tabane`, the libraries for C, the provider of libfabric; installs a C compiler if there is none
	@tools/setup.sh build
	$(BUILD)

demo: ## two nodes, two switches, one iperf3: watch a switch die (some minutes to build, then one)
	@tools/setup.sh demo
	cargo run --quiet --release -p tabane --bin tabane -- demo $(ARGS)

test: ## every test, most as root and as an ordinary user; 10,000 fault schedules
	@tools/setup.sh test
	@SEED=$(SEED) tools/test.sh

soak: soak-tests soak-sim soak-lab soak-busy ## the long runs one after another: hours

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

deb: man ## a Debian package, into target/debian
	@tools/setup.sh deb
	gzip -9n $(TARGET)/release/generated/man?/*
	gzip -9nc CHANGELOG.md >$(TARGET)/release/generated/changelog.gz
	tools/licences.py >$(TARGET)/release/generated/THIRD-PARTY
	gzip -9n $(TARGET)/release/generated/THIRD-PARTY
	rm -rf $(TARGET)/release/generated/library
	DESTDIR=$(TARGET)/release/generated/library PREFIX=/usr tools/install.sh library $(BINARY)
	strip --strip-unneeded $(TARGET)/release/generated/library/usr/lib/libtabane.so.0.1 \
		$(TARGET)/release/generated/library/usr/lib/libtabane-vipl.so.1 \
		$(TARGET)/release/generated/library/usr/lib/tabane/libtabane-fi.so
	mkdir -p $(TARGET)/release/generated/library/usr/lib/x86_64-linux-gnu/libfabric
	ln -s ../../tabane/libtabane-fi.so $(TARGET)/release/generated/library/usr/lib/x86_64-linux-gnu/libfabric/
	cargo deb --no-build --strip --package tabane

static: ## one file that needs no library: for rescue systems, containers, other distributions
	@tools/setup.sh build
	@STATIC_TARGET=$(STATIC_TARGET) tools/static.sh

install: ## PREFIX=/usr/local: install program, library, manual, documents, completions, systemd unit
	if command -v cargo >/dev/null; then $(BUILD); fi
	@DESTDIR=$(DESTDIR) PREFIX=$(PREFIX) tools/install.sh install $(BINARY)

uninstall: ## remove it again; /etc/tabane stays
	@DESTDIR=$(DESTDIR) PREFIX=$(PREFIX) tools/install.sh uninstall $(BINARY)

clean: ## remove what was built
	cargo clean
