#!/usr/bin/env bash
# Packs what schedlang needs on a CUDA host without network (Linux, x86-64), see docs/gpu.md.
#
#   benchmarks/gpu_bundle.sh pack [OUT]       OUT/part-00, part-01, ... and OUT/parts.sha256
#   benchmarks/gpu_bundle.sh add FOLDER OUT   on the host: takes the parts in OUT, and unpacks into
#                                             FOLDER/packages once all of them came
#
# Settings: PYTHON_VERSION of the host (3.12), PART_MIB (30), XZ_PRESET (9e), EXTRA_WHEELS.
# The host has CUDA with nvcc, a C++ compiler, numpy, scipy, rich, pytest, hypothesis and torch.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

pack() {
    local out work project version
    out=$(realpath -m "${1:-$here/../build/gpu-bundle}")
    work=$(mktemp -d)
    trap "rm -rf '$work'" EXIT
    project=$here/../pyproject.toml
    version=${PYTHON_VERSION:-3.12}
    get() {
        python3 -m pip download --quiet --disable-pip-version-check --no-deps \
            --only-binary=:all: --python-version "$version" --implementation cp \
            --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 \
            --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
            --dest "$work/wheels" "$@"
    }
    # The versions that pyproject.toml pins.
    get $(sed -n 's/^ *"\(apache-tvm[a-z-]*==[^"]*\)".*/\1/p' "$project")
    # MetaSchedule's cost model needs xgboost; that without CUDA is a hundredth of the size.
    get lightgbm narwhals xgboost-cpu ml_dtypes typing_extensions pytest-timeout cloudpickle \
        psutil tornado ${EXTRA_WHEELS:-}
    mkdir "$work/packages"
    for wheel in "$work"/wheels/*.whl; do
        python3 -m zipfile -e "$wheel" "$work/packages"
    done
    # Sources, headers and CUTLASS, which nothing imports; licences stay.
    rm -rf "$work"/packages/tvm/{3rdparty,web,include,src,cmake,lib64} \
        "$work"/packages/tvm_ffi/{3rdparty,src} \
        "$work"/packages/{xgboost,lightgbm}/{include,testing}
    find "$work/packages" -name tests -type d -prune -exec rm -rf {} +
    rm -rf "$out"
    mkdir -p "$out"
    tar -C "$work/packages" -cf - . |
        xz --x86 --lzma2="preset=${XZ_PRESET:-9e},dict=48MiB" --block-size=48MiB --threads=0 -c |
        split --bytes="${PART_MIB:-30}MiB" --numeric-suffixes - "$out/part-"
    (cd "$out" && sha256sum part-* > parts.sha256)
    ls -l "$out"
}

add() {
    local folder=$1 from=$2
    mkdir -p "$folder/parts"
    cp "$from"/parts.sha256 "$folder/parts/"
    cp "$from"/part-* "$folder/parts/"
    if ! (cd "$folder/parts" && sha256sum --check --quiet --strict parts.sha256 2> /dev/null); then
        echo "some parts are missing or damaged: add the others"
        return 0
    fi
    rm -rf "$folder/packages.new" "$folder/packages"
    mkdir "$folder/packages.new"
    cat "$folder"/parts/part-* | xz --threads=0 -dc | tar -C "$folder/packages.new" -xf -
    mv "$folder/packages.new" "$folder/packages"
    rm -r "$folder/parts"
    echo "export PYTHONPATH=$folder/packages\${PYTHONPATH:+:\$PYTHONPATH}"
}

case ${1:-} in
    pack) pack "${2:-}" ;;
    add) add "$2" "$3" ;;
    *)
        sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
        exit 2
        ;;
esac
