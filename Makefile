# Every target sets up first what it needs; nothing is done twice.
.DEFAULT_GOAL := help
.PHONY: help setup build demo test test-sanitized validate doctor benchmark wheels deb docs check lint clean

python := .venv/bin/python

help:                ## this list
	@sed -n 's/^\([a-z-]*\): .*## /  make \1\t/p' Makefile | expand -t 24

setup:               ## system packages, .venv with PyTorch and an OpenCL runtime, the Python packages
	@tools/setup.sh

build:               ## the same, and the C++ tests, the examples and the command
	@tools/setup.sh all

demo:                ## trains on real images on ocl:0 and on the CPU and compares them; builds the PyTorch device alone
	@tools/setup.sh torch_ocl
	@$(python) examples/fashion_mnist.py --device ocl:0 --compare cpu
	@$(python) examples/resnet_photo.py --device ocl:0 --compare cpu

test: build          ## C++ tests on each OpenCL implementation, then the Python tests
	@tools/test.sh

test-sanitized:      ## C++ tests with AddressSanitizer and UndefinedBehaviorSanitizer, in a build of their own
	@tools/test_sanitized.sh

check: setup         ## columns, formatting, spelling of documents' links and snippets: seconds
	@$(python) tools/check_style.py
	@$(python) tools/check_docs.py

lint: setup          ## clang-tidy over src/core; PATHS="src/kernels/gemm ..." chooses
	@$(python) -m pip install -qq --disable-pip-version-check -r tools/requirements-lint.txt
	@$(python) tools/lint.py $(PATHS)

validate: setup      ## torchvision models against the CPU; MODELS="resnet18 ..." chooses
	@$(python) -m torch_ocl validate $(MODELS)

doctor: setup        ## devices, drivers, versions, and what is missing
	@$(python) -m torch_ocl doctor

benchmark: setup     ## speed against PyTorch's CPU in the same run: the rows of README.md's table, minutes
	@$(python) benchmarks/models.py --case resnet18:infer:4 --case resnet18:train:8
	@$(python) benchmarks/gemm.py --only "2048 x  2048 x  2048"
	@$(python) benchmarks/deform_conv.py --configurations s64-b4

wheels: build        ## wheels of clprim and torch_ocl in out/wheels, tried in an empty environment
	@$(python) -m pip install -qq --disable-pip-version-check -r tools/requirements-wheels.txt
	@$(python) tools/wheels.py

deb: build           ## a Debian package of the C++ library and the command in out
	@cd build && cpack -G DEB -B ../out

docs: setup          ## the documents as a site in out/site
	@$(python) -m pip install -qq --disable-pip-version-check -r tools/requirements-docs.txt
	@$(python) tools/check_docs.py
	@command -v doxygen >/dev/null || tools/setup.sh packages doxygen
	@NO_MKDOCS_2_WARNING=1 $(python) -m mkdocs build --quiet --strict
	@doxygen tools/Doxyfile

clean:               ## removes the build; .venv and the compiler cache stay
	rm -rf build build-core out
