#!/bin/sh
# Builds the images penstock-worker:TAG and penstock-operator:TAG with docker, podman or buildah,
# whichever is there. `make image` calls it with BASE_IMAGE, by digest or made on this machine; it
# has no default. Settings, all optional: TAG (default: the version),
# KERNEL_CPU, BUILDER, BUILD_OPTIONS (more options of
# the build command, such as --build-arg PIP_INDEX_URL=...), IMAGES (default: worker operator; there are
# worker-extras, a worker with the clients of all connectors, and spark, made from the worker's of the same TAG).
set -eu
cd "$(dirname "$0")/.."

# A docker without its daemon builds nothing; buildah has no daemon.
BUILDER=${BUILDER:-$(for each in docker podman buildah; do
    command -v "$each" >/dev/null || continue
    [ "$each" = buildah ] || "$each" info >/dev/null 2>&1 || continue
    echo "$each" && break
done || true)}
case $BUILDER in
docker | podman) build="$BUILDER build" ;;
buildah) build="buildah bud --layers" ;;
*)
    echo "make image: no docker whose daemon answers, podman or buildah was found." \
        "Debian, Ubuntu: apt install buildah" >&2
    exit 1
    ;;
esac
case ${BASE_IMAGE:-} in
*@sha256:????????????????????????????????????????????????????????????????) ;;
localhost/*) ;; # made here: nobody else can put another in its place
*)
    echo "make image: BASE_IMAGE='${BASE_IMAGE:-}' names no image by its digest. Any Linux with" \
        "Python 3.11 and venv will do, for example:" >&2
    echo "    $BUILDER pull python:3.11-slim-bookworm" >&2
    echo "    $BUILDER inspect --type image --format '{{index .RepoDigests 0}}' python:3.11-slim-bookworm" >&2
    echo "    make image BASE_IMAGE=python:3.11-slim-bookworm@sha256:..." >&2
    exit 1
    ;;
esac
TAG=${TAG:-$(sed -n 's/^__version__ = "\(.*\)"/\1/p' worker/penstock/__init__.py)}
# Kernels are compiled for any server of this kind since 2015; other machines get generic code.
[ "$(uname -m)" = x86_64 ] && KERNEL_CPU=${KERNEL_CPU:-x86-64-v3}

# Docker keeps an image made here under its plain name, the others below localhost/.
worker=penstock-worker:$TAG
case $BUILDER in docker*) ;; *) worker=localhost/$worker ;; esac

for part in ${IMAGES:-worker operator}; do
    echo "== make image: penstock-$part:$TAG with $BUILDER"
    file=Dockerfile.${part%-extras}
    # shellcheck disable=SC2086  # options are words
    $build --quiet --build-arg BASE_IMAGE="$BASE_IMAGE" ${BUILD_OPTIONS:-} \
        $([ "$file" = Dockerfile.worker ] && echo --build-arg KERNEL_CPU="${KERNEL_CPU:-generic}") \
        $([ "$part" = worker-extras ] && echo --build-arg WORKER_LOCK=requirements-worker-extras.lock) \
        $([ "$part" = spark ] && echo --build-arg WORKER_IMAGE="$worker") \
        -t "penstock-$part:$TAG" -f "$file" . >/dev/null
done
[ "$BUILDER" = buildah ] && list="buildah images" || list="$BUILDER image ls"
$list | grep -E "penstock-(worker|worker-extras|operator|spark) +$TAG"
