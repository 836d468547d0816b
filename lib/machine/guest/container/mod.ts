/**
 * Container of a process in a guest: by the process's cgroup, and by its engine's files. Guest
 * programs bundle this folder.
 */
import { CONTAINER_NAME, IMAGE_NAME } from "../wire/limit.ts";

/** A container as its engine names it. */
export interface Container {
  id: string;
  /** absent: its engine has not said, as for a step of a build */
  name?: string;
  image?: string;
}

/** Longest file of an engine that is read, in `bytes`. */
const FILE_MAX = 4 * 1024 * 1024;
/** Most containers that are remembered; the oldest are forgotten. */
const KNOWN_MAX = 256;

/**
 * The folder of a container in a cgroup's path, as engines name it with systemd and without: a full id, which
 * is 25 characters for a step of BuildKit. The first one counts, which is the outermost: a container can make
 * cgroups of any name below its own.
 */
const FOLDER =
  /\/(docker\/buildkit\/|docker\/|docker-|libpod-|buildah-|cri-containerd-|nerdctl-|k8s\.io\/|default\/)([0-9a-f]{64}|[0-9a-z]{25})(?:\.scope)?(?=\/|$)/;

/** Shortest path with such a folder, in characters: most processes are in a cgroup with a shorter one. */
const PATH_MIN = 32;

/** Beginnings of folders, with the engine whose files name the container. */
const ENGINES = {
  "docker/": "docker",
  "docker-": "docker",
  "docker/buildkit/": undefined,
  "libpod-": "podman",
  // sbx names these (cmd/guest/container): steps of podman's builds too.
  "buildah-": "buildah",
  "cri-containerd-": "containerd",
  "nerdctl-": "containerd",
  "k8s.io/": "containerd",
  "default/": "containerd",
} as const;

type Engine = NonNullable<typeof ENGINES[keyof typeof ENGINES]>;

/**
 * Engine and id of the outermost container that a cgroup is in; `undefined` for one outside of containers.
 */
export function containerIn(cgroup: string): { engine?: Engine; id: string } | undefined {
  const [, folder, id] = FOLDER.exec(cgroup) ?? [];
  return id === undefined ? undefined : { engine: ENGINES[folder as keyof typeof ENGINES], id };
}

/** Containers of processes. Root in the guest can change everything that is read here. */
export class Containers {
  readonly #root: string;
  readonly #known = new Map<string, Container>();

  /** @param root of the guest's files, for tests */
  constructor(root = "") {
    this.#root = root;
  }

  /** @returns `undefined` for a process outside of containers, and one that has ended */
  of(pid: number): Container | undefined {
    const cgroup = this.#cgroupOf(pid);
    const found = cgroup.length < PATH_MIN ? undefined : containerIn(cgroup);
    return found && this.#named(found);
  }

  /** Its path in cgroup v2, or an empty text. */
  #cgroupOf(pid: number): string {
    try {
      return /^0::(.*)$/m.exec(Deno.readTextFileSync(`${this.#root}/proc/${pid}/cgroup`))?.[1] ?? "";
    } catch {
      return "";
    }
  }

  #named({ engine, id }: { engine?: Engine; id: string }): Container {
    const known = this.#known.get(id);
    if (known) return known;
    let said: { name?: unknown; image?: unknown } = {};
    try {
      if (engine) said = READERS[engine](id, (path) => this.#read(path)) ?? {};
    } catch {
      // Not the JSON of an engine.
    }
    const name = valid(said.name, CONTAINER_NAME), image = valid(said.image, IMAGE_NAME);
    const container = { id, ...name && { name }, ...image && { image } };
    // An engine may write its file only after the container's first process is there.
    if (name) this.#remember(id, container);
    return container;
  }

  #remember(id: string, container: Container): void {
    this.#known.set(id, container);
    if (this.#known.size > KNOWN_MAX) this.#known.delete(this.#known.keys().next().value!);
  }

  /** Reads a file, but no pipe or device, on which the reader would hang. */
  #read(path: string): string | undefined {
    try {
      const { isFile, size } = Deno.lstatSync(this.#root + path);
      return isFile && size <= FILE_MAX ? Deno.readTextFileSync(this.#root + path) : undefined;
    } catch {
      return undefined;
    }
  }
}

function valid(value: unknown, pattern: RegExp): string | undefined {
  return typeof value === "string" && pattern.test(value) ? value : undefined;
}

type Reader = (
  id: string,
  read: (path: string) => string | undefined,
) => { name?: unknown; image?: unknown } | undefined;

/** Readers of the files that engines keep in their usual folders. */
const READERS: Record<Engine, Reader> = {
  docker(id, read) {
    const { Name, Config } = JSON.parse(read(`/var/lib/docker/containers/${id}/config.v2.json`) ?? "{}");
    return { name: String(Name ?? "").replace(/^\//, ""), image: Config?.Image };
  },
  podman(id, read) {
    // Containers of `run --rm` are in the second list.
    const lists = ["containers", "volatile-containers"].flatMap((name) =>
      JSON.parse(read(`/var/lib/containers/storage/overlay-containers/${name}.json`) ?? "[]")
    );
    const metadata = lists.find((each: { id?: unknown }) => each?.id === id)?.metadata;
    const { name, "image-name": image } = JSON.parse(metadata ?? "{}");
    return { name, image };
  },
  buildah(id, read) {
    const text = read(`/var/lib/containers/storage/overlay-containers/${id}/userdata/buildah.json`);
    const { "container-name": name, image } = JSON.parse(text ?? "{}");
    return { name, image };
  },
  containerd(id, read) {
    for (const namespace of ["default", "k8s.io"]) {
      const text = read(`/run/containerd/io.containerd.runtime.v2.task/${namespace}/${id}/config.json`);
      const { annotations } = JSON.parse(text ?? "{}");
      if (!annotations) continue;
      return {
        name: annotations["nerdctl/name"] ?? annotations["io.kubernetes.cri.container-name"],
        image: annotations["io.kubernetes.cri.image-name"],
      };
    }
    return undefined;
  },
};
