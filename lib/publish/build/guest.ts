/** The program of a build's VM. */
import { CONTAINER_APT_PATH, LAYER_PATH, RUNTIMES_PATH } from "../../machine/guest/wire/mod.ts";
import type { BuildInputs, Features } from "./context.ts";

/** Folders in the VM: of one build, and of the containers' store. */
const STATE = "/run/sbx-build", STORE = "/var/lib/containers";
/** Folder of the context's archive and the Dockerfile. */
const INBOX = "/workspace/.sbx-build";

/** Paths in the VM that the host writes and reads. */
export const GUEST_PATHS = {
  archive: `${INBOX}/context.tar`,
  dockerfile: `${INBOX}/Dockerfile`,
  features: `${INBOX}/features.tar`,
  featuresConfig: `${INBOX}/devcontainer.json`,
  blob: (hex: string) => `${STORE}/out/${hex}`,
  secret: (id: string) => `${STATE}/secrets/${id}`,
} as const;

/** The reference implementation of devcontainers, of the builder's packages (docs/design/dependencies.md). */
const DEVCONTAINER_CLI = "/usr/local/lib/node_modules/@devcontainers/cli/devcontainer.js";

/**
 * The reference implementation's configuration for a build: the Dockerfile and context of this build, and
 * the features. No other field: the image's label gets the metadata of the base image and of the
 * features, and sbx adds the file's own.
 */
export function featuresConfig(
  { features, order, containerUser, remoteUser }: Features,
  { target, args }: Pick<BuildInputs, "target" | "args">,
): string {
  return JSON.stringify({
    build: { dockerfile: GUEST_PATHS.dockerfile, context: `${STORE}/context`, target, args },
    features,
    overrideFeatureInstallOrder: order,
    containerUser,
    remoteUser,
  });
}

/**
 * `docker` for the reference implementation, whose commands buildah carries out. Its output goes to the
 * script's own, without the implementation's timestamps, and a failed step's exit code into a file. An image
 * is pulled before it is inspected: the implementation would read its configuration from the registry
 * otherwise, with a client of its own.
 */
const DOCKER = `#!/bin/sh
set -eu
verb=$1
shift
case $verb in
-v) echo 'Docker version 24.0.0' ;;
version) echo 24.0.0 ;;
inspect)
  [ "$1 $2" = '--type image' ] || exit 1
  buildah pull --quiet --policy missing --signature-policy ${STATE}/policy.json "$3" >/dev/null
  buildah inspect --type image "$3" | jq '[{Id: .FromImageID, Os: .OCIv1.os, Architecture: .OCIv1.architecture, Config:
    (.OCIv1.config | {User: (.User // ""), Env: (.Env // []), Labels: (.Labels // {}), Entrypoint, Cmd})}]'
  ;;
build)
  code=0
  sh ${STATE}/buildah $(cat ${STATE}/options) "$@" >/proc/$SBX_BUILD/fd/1 2>/proc/$SBX_BUILD/fd/2 || code=$?
  echo $code >${STATE}/exit
  exit $code
  ;;
*) exit 1 ;;
esac
`;

/** buildah, with the options of every build. Its runtime is the layer's, which gives steps the CA. */
const BUILDAH =
  `exec buildah build --isolation oci --runtime ${RUNTIMES_PATH}/crun --network host --layers --force-rm --format docker \\
  --signature-policy ${STATE}/policy.json --ignorefile ${STATE}/ignore "$@"
`;

/**
 * Script with the steps of a build, by its first argument. `setup LOGINS [ID REF]…` prepares the VM;
 * `build OPTION…` runs buildah, whose exit code is the script's, and `features CONFIG OPTION…` the reference
 * implementation of devcontainers, which runs buildah; `bases NAME…` prints the digests of images; `push`
 * writes the image into a folder, and prints its manifest; `tidy` removes everything but the store.
 *
 * The store is a folder of the disk itself: the root file system is an overlay, which cannot hold another
 * one. Layers are not compressed: they stay on this machine, and an emulated VM takes long to compress. An
 * `oci:` layout would compress them.
 */
export const SCRIPT = `set -eu
phase=$1
shift
export CONTAINERS_REGISTRIES_CONF=${STATE}/registries.conf
export STORAGE_DRIVER=overlay
# Of buildah, and of the reference implementation of devcontainers.
export REGISTRY_AUTH_FILE=${STATE}/config.json DOCKER_CONFIG=${STATE}
case $phase in
setup)
  if [ ! -e ${CONTAINER_APT_PATH} ]; then
    echo 'the image of builder was built by an older sbx: sbx image build builder, and then delete this VM' >&2
    exit 1
  fi
  umask 077
  mkdir -p ${STATE}/secrets ${STATE}/disk ${STORE}
  if ! mountpoint -q ${STORE}; then
    disk=/dev/vdc
    for each in /sys/block/vd*; do
      serial=
      read -r serial <$each/serial || :
      [ "$serial" != scratch ] || disk=/dev/\${each##*/}
    done
    mount -o noatime $disk ${STATE}/disk
    mkdir -p ${STATE}/disk/containers
    mount --bind ${STATE}/disk/containers ${STORE}
    umount ${STATE}/disk
  fi
  mountpoint -q /sys/fs/cgroup || mount -t cgroup2 cgroup2 /sys/fs/cgroup
  cat >${STATE}/docker <<'END'
${DOCKER}END
  cat >${STATE}/buildah <<'END'
${BUILDAH}END
  chmod 755 ${STATE}/docker
  : >${STATE}/ignore
  echo '{"default": [{"type": "insecureAcceptAnything"}]}' >${STATE}/policy.json
  printf '%s\\n' 'unqualified-search-registries = ["docker.io"]' 'short-name-mode = "disabled"' >${STATE}/registries.conf
  printf %s "$1" >${STATE}/config.json
  shift
  while [ $# -gt 0 ]; do
    printf %s "$2" >${STATE}/secrets/$1
    shift 2
  done
  # Of a build that was cut off.
  buildah rm --all >/dev/null 2>&1 || :
  ;;
build)
  rm -rf ${STORE}/context
  mkdir ${STORE}/context
  tar -x -p --no-same-owner -f ${GUEST_PATHS.archive} -C ${STORE}/context
  rm ${GUEST_PATHS.archive}
  exec sh ${STATE}/buildah --tag image "$@" --file ${GUEST_PATHS.dockerfile} ${STORE}/context
  ;;
features)
  rm -rf ${STORE}/context ${STORE}/features ${STATE}/exit
  mkdir -p ${STORE}/context ${STORE}/features/.devcontainer ${STORE}/features/tmp
  tar -x -p --no-same-owner -f ${GUEST_PATHS.archive} -C ${STORE}/context
  tar -x -p --no-same-owner -f ${GUEST_PATHS.features} -C ${STORE}/features/.devcontainer
  rm ${GUEST_PATHS.archive} ${GUEST_PATHS.features}
  mv ${GUEST_PATHS.featuresConfig} ${STORE}/features/$1
  shift
  echo "$@" >${STATE}/options
  export DENO_NO_UPDATE_CHECK=1 SBX_BUILD=$$ TMPDIR=${STORE}/features/tmp DENO_DIR=${STORE}/features/deno DENO_CERT="$SSL_CERT_FILE"
  {
    ${LAYER_PATH}/bin/deno run -A --unstable-detect-cjs --no-config --no-lock --no-remote --no-npm --quiet \\
      ${DEVCONTAINER_CLI} build --docker-path ${STATE}/docker --buildkit never --image-name image \\
      --workspace-folder ${STORE}/features 2>&1 >${STATE}/outcome || :
  } | sed -u 's/^\\[[0-9TZ:.-]*\\] //; /^    at /d' >&2
  [ "$(jq -r .outcome ${STATE}/outcome)" != success ] || exit 0
  code=0
  [ ! -e ${STATE}/exit ] || read -r code <${STATE}/exit
  # buildah has said why, where it failed.
  [ "$code" = 0 ] || exit "$code"
  jq -r '.message // .description' ${STATE}/outcome >&2
  exit 1
  ;;
bases)
  for name; do
    digest=$(buildah inspect --type image --format '{{.FromImageDigest}}' "$name" 2>/dev/null || :)
    printf '%s\\t%s\\n' "$name" "$digest"
  done
  ;;
push)
  rm -rf ${STORE}/out
  buildah push --quiet --disable-compression --format oci --signature-policy ${STATE}/policy.json image dir:${STORE}/out >&2
  cat ${STORE}/out/manifest.json
  ;;
tidy)
  buildah rm --all >/dev/null 2>&1 || :
  rm -rf ${STORE}/out ${STORE}/context ${STORE}/features ${STATE}/secrets ${STATE}/config.json ${INBOX}
  ;;
esac
`;
