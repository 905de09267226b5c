# Two commands do all their own set-up: `make demo` and `make test`. What they need: python3 (3.11 to 3.13) and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
CHROMIUM := chromium chromium-browser google-chrome-stable google-chrome chrome
# Most tests wait for real time: files of them side by side.
JOBS ?= -n 4 --dist loadfile
# What the environments are made from: a change in either makes them anew.
MADE_FROM := pyproject.toml constraints.txt

# Scoring runs on the CPU unless you say otherwise: make score TORCH=torch==2.13.0
ON_LINUX := $(filter Linux,$(shell uname -s))
TORCH ?= torch==2.13.0$(if $(ON_LINUX),+cpu)
# Elsewhere there is one build alone, without CUDA.
MEANT := $(if $(ON_LINUX),$(if $(findstring +cpu,$(TORCH)),,--cuda))
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
# What these say that they need would bring torchaudio along; they work without it.
WITHOUT_THEIR_NEEDS := distillmos==0.9.1 xls-r-sqa==0.1.0
EMOTION := .venv-emotion
EMOTION_PIP = $(EMOTION)/bin/python -m pip --disable-pip-version-check --quiet install

.PHONY: FORCE demo score emotion test check benchmarks chromium sound wordnet clean

## Hold three spoken dialogues with the embedded server and print what was measured.
demo: $(VENV)/.embedded
	$(BIN)/duologue demo

## Score the replies of the last demo, or of a new one, by every metric that is here (the first time installs torch).
score: $(VENV)/.score
	@run=$$(ls -1 runs/*-demo*/summary.json 2>/dev/null | tail -n 1); run=$${run%/summary.json}; \
	if [ -z "$$run" ]; then \
	  run=runs/$$(date +%Y-%m-%dT%H-%M-%S)-demo; \
	  $(BIN)/duologue demo --no-scores --out "$$run" || [ $$? = 1 ] || exit 2; \
	fi; \
	$(BIN)/duologue score "$$run"

## The environment in which emotion is scored: its packages do not get on with ours.
emotion: $(EMOTION)/.made

## Everything that CI runs: style, types, all tests on real models and real peers.
test: $(VENV)/.dev $(EMOTION)/.made chromium sound wordnet
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --check --quiet .
	@# Types are checked while weights come and the first tests wait.
	@$(BIN)/mypy > $(VENV)/types.txt 2>&1 & types=$$!; \
	$(BIN)/duologue weights fetch --set embedded && \
	  $(BIN)/duologue weights fetch --set score && \
	  $(BIN)/pytest $(JOBS); tests=$$?; \
	wait $$types; types=$$?; cat $(VENV)/types.txt; \
	[ $$types = 0 ] && [ $$tests = 0 ]

## The quick half of `make test`: no models, no peers.
check: $(VENV)/.dev
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/pytest $(JOBS) -m "not embedded and not peer"

## Reported minus true, ours beside other clients' (about 9 minutes, on a machine with nothing else to do).
benchmarks: $(VENV)/.dev
	$(BIN)/python -m benchmarks.accuracy

# What tests need of the system: the browser in which report.html is opened, sound devices made of software, the words of
# METEOR. Without them those tests are skipped; in CI they fail. $(1): how it is seen that it is there, $(2): packages.
define from_debian
@if $(1); then exit 0; fi; \
if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
  echo "installing $(2) ..."; \
  apt-get -qq update >/dev/null && \
  DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $(2) >/dev/null \
    || echo "$(2) could not be installed; the tests that need it cannot run" >&2; \
else \
  echo "tests that need $(2) are skipped; on Debian: apt-get install $(2)" >&2; \
fi
endef

chromium:
	$(call from_debian,for name in $(CHROMIUM); do command -v $$name >/dev/null && break; done,chromium)

sound:
	$(call from_debian,command -v pulseaudio >/dev/null && ls /usr/lib/*/libportaudio.so.2 \
	  /usr/lib/*/alsa-lib/libasound_module_pcm_pulse.so >/dev/null 2>&1,pulseaudio libportaudio2 libasound2-plugins)

wordnet:
	$(call from_debian,ls /usr/share/wordnet/index.noun >/dev/null 2>&1,wordnet-base)

clean:
	rm -rf .venv .venv-emotion .venv-peer-* .mypy_cache .ruff_cache .pytest_cache

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
	  || { echo "duologue needs Python 3.11 to 3.13; name one with: make PYTHON=python3.12 ..." >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV) \
	  || { echo "python3 cannot make virtual environments here; on Debian: apt-get install python3-venv" >&2; exit 2; }

$(VENV)/.embedded: $(MADE_FROM) | $(VENV)/bin/python
	@echo "installing duologue and its embedded server into $(VENV) ..."
	@$(PIP) install -c constraints.txt -e '.[embedded,mos,text]'
	@touch $@

# Which torch each environment is for. pip takes 2.13.0+cpu for 2.13.0, and leaves CUDA behind: what was there goes first.
$(VENV)/.torch: FORCE | $(VENV)/bin/python
	@[ "$$(cat $@ 2>/dev/null)" = '$(TORCH)' ] && exit; \
	before=$$($(PIP) freeze | sed -nE 's/^(torch|nvidia[-_][^=@ ]*)[=@ ].*/\1/p'); \
	[ -z "$$before" ] || $(PIP) uninstall --yes $$before; \
	echo '$(TORCH)' >$@

$(EMOTION)/.torch: FORCE
	@[ "$$(cat $@ 2>/dev/null)" = '$(TORCH)' ] || { mkdir -p $(EMOTION) && echo '$(TORCH)' >$@; }

comma := ,
# $(1): the extras. What lacks its needs goes first, lest pip complains of it, and comes last.
define install_scoring
@$(PIP) uninstall --yes $(foreach each,$(WITHOUT_THEIR_NEEDS),$(firstword $(subst ==, ,$(each)))) 2>/dev/null || true
@$(PIP) install -c constraints.txt '$(TORCH)' 2>/dev/null \
  || $(PIP) install -c constraints.txt --extra-index-url $(TORCH_INDEX) '$(TORCH)'
@$(PIP) install -c constraints.txt -e '.[$(1)]'
@$(PIP) install --no-deps $(WITHOUT_THEIR_NEEDS)
@$(BIN)/python -m tools.scoring_environment $(MEANT)
@$(BIN)/duologue weights fetch --set score
endef

$(VENV)/.score: $(MADE_FROM) $(VENV)/.torch | $(VENV)/bin/python
	@echo "installing duologue with what scoring needs into $(VENV) ..."
	$(call install_scoring,embedded$(comma)score)
	@touch $@ $(VENV)/.embedded

$(EMOTION)/.made: tools/emotion-requirements.txt $(EMOTION)/.torch
	@echo "installing what scores emotion into $(EMOTION) ..."
	@rm -rf $(EMOTION)
	@$(PYTHON) -m venv $(EMOTION)
	@echo '$(TORCH)' >$(EMOTION)/.torch
	@$(EMOTION_PIP) '$(TORCH)' 2>/dev/null || $(EMOTION_PIP) --extra-index-url $(TORCH_INDEX) '$(TORCH)'
	@$(EMOTION_PIP) --no-deps --only-binary :all: -r tools/emotion-requirements.txt
	@$(EMOTION)/bin/python -m tools.scoring_environment $(MEANT)
	@touch $@

$(VENV)/.dev: $(MADE_FROM) $(VENV)/.torch | $(VENV)/bin/python
	@echo "installing duologue with its development tools into $(VENV) ..."
	$(call install_scoring,dev)
	@touch $@ $(VENV)/.score $(VENV)/.embedded
