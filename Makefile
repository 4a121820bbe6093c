# Two commands matter: `make demo` and `make test`. Both make .venv first and install everything pinned into it.
PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2

RUN := $(VENV)/bin/python
CHROMIUM = command -v chromium || command -v chromium-browser || command -v google-chrome
PYTEST := OMP_NUM_THREADS=1 $(RUN) -m pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations=15
# Containers often set this. Every process would then compile thousands of modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test test-all test-full test-browser test-lowest test-newest bench lint types docs docs-version doctor
.PHONY: wheels dists try-wheels clean distclean

help:
	@echo 'make demo      install, then train and test a small FLatten-Swin Mask R-CNN on digit scenes and write a report on it'
	@echo 'make test      install, then linter, type checker and test suite'
	@echo 'make test-all  the test suite with the full sweep (every config, every size)'
	@echo 'make test-full  only the tests of the full sweep'
	@echo 'make test-lowest   tests of models with the lower bounds of all requirements; make test-newest with the newest versions'
	@echo 'make test-browser  report, app and site in Chromium; as root it installs Debian'"'"'s Chromium if there is none'
	@echo 'make bench     compare the speed of the models with the committed ratios of this processor family, about 5 minutes'
	@echo 'make setup     install into $(VENV): a minute on 2 cores, 3.4 GB of download'
	@echo 'make doctor    check the installation, with the command that fixes each problem'
	@echo 'make lint      ruff; make types runs mypy on the parts that are typed throughout'
	@echo 'make docs      build the documentation as a site: site/index.html, English and Vietnamese'
	@echo 'make docs-version  add the site of this version to the branch gh-pages, beside those of earlier versions'
	@echo 'make wheels    build the wheels of mmflatten, mmflatten-lab and mmcv-torch-ops in dist/, always the same bytes'
	@echo 'make dists     wheels and source distributions, checked; make try-wheels installs the wheels in empty environments'
	@echo 'make clean     remove caches and build leftovers; make distclean also removes $(VENV)'
	@echo 'PYTHON=python3.12 chooses the Python (3.11 to 3.13), VENV=DIR another environment.'

setup:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || { \
	  echo '$(PYTHON) is' "$$($(PYTHON) --version 2>&1 || true)"; \
	  echo 'Python 3.11 to 3.13 is required. Name one: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11'; exit 1; }
	@$(PYTHON) requirements/install.py $(VENV)

demo: setup
	@echo '>> Digit scenes'
	@$(RUN) tools/dataset/prepare_digits.py
	@echo '>> Train, test, draw'
	@$(RUN) tools/demo.py

# The tests need one core until their workers have started; the type checker takes the other one.
BESIDE_TYPES = $(RUN) -m mypy & types=$$!; $(1); status=$$?; wait $$types && exit $$status

test: lint
	$(call BESIDE_TYPES,$(PYTEST) -m 'not full and not browser')

test-all: lint
	$(call BESIDE_TYPES,$(PYTEST) -m 'not browser')

test-full: setup
	$(PYTEST) -m 'full and not browser'

# In environments of their own, build/test-lowest and build/test-newest.
BOUNDED ?= tests/test_ops tests/test_models tests/test_timm tests/test_checkpoints tests/test_tasks tests/test_predict tests/test_export
LISTS := $(foreach name,runtime mmcv cls det seg analyze export hub timm tests,-r requirements/$(name).txt)
test-lowest: RESOLUTION = lowest-direct
test-newest: RESOLUTION = highest
test-lowest: OPENCV = opencv-python-headless==4.11.0.86  # imaug requires it too, without a bound
test-lowest test-newest: setup
	$(RUN) -m uv venv -q --clear --seed --python $(RUN) build/$@
	$(RUN) -m uv pip install -q --python build/$@ --resolution $(RESOLUTION) --override requirements/overrides.txt $(LISTS) $(OPENCV) ./mmcv-torch-ops
	OMP_NUM_THREADS=1 build/$@/bin/python -m pytest -q -m 'not full and not browser' $(BOUNDED)

test-browser: setup
	@($(CHROMIUM)) > /dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -y -qq chromium; } || { \
	  echo 'No chromium or google-chrome was found. As root on Debian: apt-get install chromium'; exit 1; }
	OMP_NUM_THREADS=1 $(RUN) -m pytest -q -m browser tests/test_browser

bench: setup
	$(RUN) tools/maintain/speed_guard.py

lint: setup
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .

types: setup
	$(RUN) -m mypy

docs: export NO_MKDOCS_2_WARNING = 1
docs: setup
	$(RUN) -m mkdocs build --strict
	@echo 'site/index.html'

docs-version: export NO_MKDOCS_2_WARNING = 1
docs-version: export DOCS_VERSIONS = mike
docs-version: setup
	$(RUN) -m mike deploy --update-aliases "$$($(RUN) -c 'import mmflatten; print(mmflatten.__version__.rpartition(".")[0])')" latest
	@echo 'It is a commit on the branch gh-pages: look at it with $(RUN) -m mike serve, publish it with git push.'

doctor:
	@$(RUN) -m mmflatten doctor

wheels:
	$(PYTHON) -m venv build/env
	build/env/bin/python -m pip install -q --disable-pip-version-check -c requirements/constraints.txt setuptools hatchling
	rm -rf build/lib lab/build
	umask 022; SOURCE_DATE_EPOCH=315532800 build/env/bin/python -m pip wheel -q --no-deps --no-build-isolation -w dist . ./lab ./mmcv-torch-ops

dists: wheels
	build/env/bin/python -m pip install -q --disable-pip-version-check -r requirements/release.txt
	umask 022; export SOURCE_DATE_EPOCH=315532800; for folder in . lab mmcv-torch-ops; do \
	  build/env/bin/python -m build -q --no-isolation --sdist -o dist $$folder || exit 1; done
	build/env/bin/python -m twine check --strict dist/*
	build/env/bin/check-wheel-contents dist/mmflatten*.whl
	build/env/bin/check-wheel-contents --config mmcv-torch-ops/pyproject.toml dist/mmcv_torch_ops*.whl

try-wheels: setup dists
	$(RUN) tools/maintain/try_wheels.py

clean:
	rm -rf build dist site *.egg-info lab/build lab/*.egg-info mmcv-torch-ops/build mmcv-torch-ops/src/*.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find . -name '.venv*' -prune -o -name __pycache__ -type d -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV) $(VENV).lock
