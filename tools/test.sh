#!/usr/bin/env bash
# Runs every test: the C++ tests on each OpenCL implementation of this machine and, for the kernels, once more as if it
# were a GPU; then the Python tests, a sample of them on PoCL at the same time. Every part runs even if an earlier one
# failed. `make test` sets up first.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

failed=()
attempt() {
    local name=$1
    shift
    printf '\n\033[1m== %s\033[0m\n' "$name"
    "$@" || failed+=("$name")
}

# The same beside what follows, with its output kept until `rejoin`.
names=() logs=() processes=()
beside() {
    names+=("$1")
    logs+=("$(mktemp)")
    shift
    "$@" >"${logs[-1]}" 2>&1 &
    processes+=($!)
}
rejoin() {
    local i
    for i in "${!names[@]}"; do
        wait "${processes[i]}" || failed+=("${names[i]}")
        printf '\n\033[1m== %s\033[0m\n' "${names[i]}"
        cat "${logs[i]}"
        rm -f "${logs[i]}"
    done
    names=() logs=() processes=()
}

# on DRIVER PLATFORM COMMAND...: with one OpenCL implementation alone. The system's loader takes a driver's library in
# OCL_ICD_VENDORS; the Python package brings its own loader, which sees every driver, and selects by name.
# PoCL would pass over integer divisions by zero in kernels, which are undefined.
on() { env POCL_SIGFPE_HANDLER=0 ${1:+"OCL_ICD_VENDORS=$1"} ${2:+"CLPRIM_DEVICES=$2"} "${@:3}"; }

# Two processes at a time, since most tests hold one core; of the Python tests one more, since many wait for processes
# of their own. They share programs through the cache on disk, where a process waits for one that another builds.
jobs=${CLPRIM_TEST_JOBS:-2}
cpp=(ctest --test-dir build --output-on-failure --timeout 900 --parallel "$jobs")
python=(.venv/bin/python -m pytest -q tests/python --dist worksteal)
intel=$PWD/.venv/lib/libintelocl.so
pocl=$(cat /etc/OpenCL/vendors/pocl*.icd 2>/dev/null)
intel_name="Intel(R) OpenCL"
pocl_name="Portable Computing Language"

drivers=0
if [ -e "$intel" ]; then
    drivers=$((drivers + 1))
    attempt "C++ tests, Intel's CPU runtime" on "$intel" "$intel_name" "${cpp[@]}"
    # Kernels for GPUs stand in for GPUs here, so Intel's compiler need not find vectors of work-items, which takes more
    # than half of its time. Those of attention, and some of every family's, ask for sub-groups, which are such vectors.
    # Tests of vectors of 256 bits are about kernels for CPUs.
    gpu=(on "$intel" "$intel_name" env CLPRIM_DEVICE_KIND=gpu)
    # Intel's pass that brings fewer values across barriers (ReduceCrossBarrierValues) goes on using memory that it has
    # freed once it has copied values into 48 blocks of a kernel, and crashed one compilation in fifteen of attention's.
    # None of the kernels for CPUs has as many blocks between barriers. Elsewhere it must stay: its compiler sums
    # wrongly without it over a work-group that loops around barriers.
    without="-opt-disable=sycl-kernel-reduce-cross-barrier-values -opt-bisect-verbose=0"
    # Few and long: beside the next two parts.
    beside "C++ tests of attention for GPUs, Intel's CPU runtime" \
        "${gpu[@]}" CL_CONFIG_LLVM_OPTIONS="$without" "${cpp[@]}" --parallel 1 --label-regex kernels \
        --tests-regex "attention|forged_operands"
    attempt "C++ tests of kernels for GPUs, Intel's CPU runtime" \
        "${gpu[@]}" CL_CONFIG_CPU_VECTORIZER_MODE=1 "${cpp[@]}" --label-regex "kernels|net" \
        --exclude-regex "attention|256_bits|forged_operands"
fi
if [ -n "$pocl" ]; then
    drivers=$((drivers + 1))
    # What forged operands are refused by knows no driver. PoCL takes twice as long to compile kernels as Intel's does,
    # without optimising them as long; the sample of Python tests below has them optimised. Of each program every second
    # test. CLPRIM_TEST_ALL=1 runs all, optimised.
    if [ "${CLPRIM_TEST_ALL:-0}" = 1 ]; then
        share=()
    else
        share=(GTEST_TOTAL_SHARDS=2 GTEST_SHARD_INDEX=0 POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable)
    fi
    attempt "C++ tests, PoCL" on "$pocl" "$pocl_name" env "${share[@]}" "${cpp[@]}" --exclude-regex "forged_operands"
    rejoin
    beside "a sample of the Python tests, PoCL" on "" "$pocl_name" "${python[@]}" \
        --numprocesses $(((jobs + 1) / 2)) --sample 50
fi
if [ "$drivers" = 0 ]; then
    attempt "C++ tests" "${cpp[@]}"
fi
beside "style" .venv/bin/python tools/check_style.py
beside "documents" .venv/bin/python tools/check_docs.py
beside "kernels as compilers of GPUs see them" .venv/bin/python tools/kernel_report --check --quick
# Without a choice of device: the GPU where there is one, else the fastest CPU implementation.
attempt "Python tests" "${python[@]}" --numprocesses $((jobs + 1))
rejoin

if [ ${#failed[@]} -gt 0 ]; then
    printf '\nFAILED: %s\n' "${failed[@]}" >&2
    exit 1
fi
