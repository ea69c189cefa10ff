# Every target sets up first what it needs; nothing is done twice.
.DEFAULT_GOAL := help
.PHONY: help setup demo test validate doctor benchmark clean

python := .venv/bin/python

help:                ## this list
	@sed -n 's/^\([a-z]*\): .*## /  make \1\t/p' Makefile | expand -t 20

setup:               ## system packages, .venv with PyTorch and an OpenCL runtime, the build
	@tools/setup.sh

demo: setup          ## trains on real images on ocl:0 and on the CPU and compares them
	@$(python) examples/fashion_mnist.py --device ocl:0 --compare cpu
	@$(python) examples/resnet_photo.py --device ocl:0 --compare cpu

test: setup          ## C++ tests on each OpenCL implementation, then the Python tests
	@tools/test.sh

validate: setup      ## torchvision models against the CPU; MODELS="resnet18 ..." chooses
	@$(python) -m torch_ocl validate $(MODELS)

doctor: setup        ## devices, drivers, versions, and what is missing
	@$(python) -m torch_ocl doctor

benchmark: setup     ## speed against PyTorch's CPU in the same run
	@$(python) benchmarks/models.py
	@$(python) benchmarks/launch_overhead.py

clean:               ## removes the build; .venv and the compiler cache stay
	rm -rf build build-core out
