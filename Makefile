# make demo and make test need Python 3.11+, pip and make; they build .venv on first use. With a C compiler they
# compile the native library too.
#
#   make test ARGS="-k circle"     flags for pytest or for the demo
#   make test-gpu PYTHON=python3   an interpreter that has its own torch; .venv is left alone
#   make bench ARGS="--seconds 5"  flags for the benchmarks

BASE_PYTHON ?= python3
VENV        := .venv
PYTHON      ?= $(VENV)/bin/python
ARGS        ?=
WORKERS     ?= 2
NATIVE      := src/colangevin/native
LIBRARY     := $(NATIVE)/colangevin_native.so

ifeq ($(PYTHON),$(VENV)/bin/python)
python_ready := $(VENV)/bin/python
demo_ready := $(VENV)/.demo-stamp
test_ready := $(VENV)/.test-stamp
bench_ready := $(VENV)/.bench-stamp
docs_ready := $(VENV)/.docs-stamp
else
# Nothing is installed into an interpreter that is not ours: the package is read from src.
export PYTHONPATH := src$(if $(PYTHONPATH),:$(PYTHONPATH))
endif

# bfloat16 matrix products crash inside oneDNN on some CPUs unless its instruction set is capped here.
test test-slow bench docs docs-serve: export ONEDNN_MAX_CPU_ISA := AVX512_CORE
# The workers of pytest-xdist already fill the cores, and the networks of the tutorials are too small for threads.
test test-slow docs docs-serve: export OMP_NUM_THREADS := 1

# It is to end within three minutes on two cores: both are used, and no more. A thread that waits sleeps: where
# other programs run too, threads that spin take the cores from the one they wait for.
demo: export OMP_NUM_THREADS := 2
demo: export OMP_WAIT_POLICY := passive

# Packages are compiled as they are imported, not all at once: torch has thousands of modules that nobody needs.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-gpu docs docs-serve bench bench-gpu lint clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## */\t/' | expand -t 12

demo: $(demo_ready) $(LIBRARY)  ## Figure 4 in a small form (8 hidden layers, 600 epochs, 2 runs) and its report
	rm -rf out/demo
	$(PYTHON) -m colangevin run fig4 --quick --device cpu --out out/demo $(ARGS)
	$(PYTHON) -m colangevin report out/demo

test: lint $(LIBRARY)  ## lint, then the fast tests
	$(PYTHON) -m pytest -n $(WORKERS) $(ARGS)

test-slow: $(test_ready) $(LIBRARY)  ## the statistical and other long tests
	$(PYTHON) -m pytest -n $(WORKERS) -m slow $(ARGS)

test-gpu: $(test_ready) $(LIBRARY)  ## the tests that need a CUDA device
	$(PYTHON) -m pytest -m gpu $(ARGS)

docs: export NO_MKDOCS_2_WARNING := 1
docs: $(docs_ready) $(LIBRARY)  ## the documentation with every tutorial executed, in build/site, and its tests in a browser
	rm -rf build/site
	$(PYTHON) -m mkdocs build --strict
	$(PYTHON) -m pytest -m site tests/docs $(ARGS)

docs-serve: $(docs_ready) $(LIBRARY)  ## show the documentation, and follow changes
	$(PYTHON) -m mkdocs serve

bench: $(bench_ready) $(LIBRARY)  ## time steps on the CPU beside SGD and other libraries; draw the plot, write the README's table
	$(PYTHON) -m benchmarks.run --device cpu --limit 600 $(ARGS)
	$(PYTHON) -m benchmarks.plot
	$(PYTHON) -m benchmarks.table

bench-gpu: $(bench_ready) $(LIBRARY)  ## the same on a CUDA device
	$(PYTHON) -m benchmarks.run --device cuda $(ARGS)
	$(PYTHON) -m benchmarks.plot
	$(PYTHON) -m benchmarks.table

lint: $(test_ready)  ## ruff and mypy
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy

clean:  ## remove the environment, caches and builds
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis $(LIBRARY)
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	$(BASE_PYTHON) -m venv $(VENV)

# A source that changed is compiled without installing again. Without a compiler the plain path is taken.
$(LIBRARY): $(NATIVE)/compile.py $(NATIVE)/sources $(wildcard $(NATIVE)/sources/*) | $(python_ready)
	-$(PYTHON) $<

$(VENV)/.demo-stamp: pyproject.toml hatch_build.py requirements/torch.txt | $(VENV)/bin/python
	$(VENV)/bin/python -m pip install --no-compile -c requirements/torch.txt -e ".[experiments]"
	touch $@

$(VENV)/.test-stamp: pyproject.toml hatch_build.py requirements/torch.txt | $(VENV)/bin/python
	$(VENV)/bin/python -m pip install --no-compile -c requirements/torch.txt -e ".[dev]"
	touch $@

$(VENV)/.bench-stamp: pyproject.toml hatch_build.py requirements/torch.txt | $(VENV)/bin/python
	$(VENV)/bin/python -m pip install --no-compile -c requirements/torch.txt -e ".[bench]"
	touch $@

$(VENV)/.docs-stamp: pyproject.toml hatch_build.py requirements/torch.txt | $(VENV)/bin/python
	$(VENV)/bin/python -m pip install --no-compile -c requirements/torch.txt -e ".[docs]"
	touch $@
