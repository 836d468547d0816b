import { resolve } from "node:path";
import { SbxError } from "../../base/error/mod.ts";

/** Name of an image, as people write it. */
export interface Reference {
  kind: "registry" | "oci" | "docker-archive" | "docker-daemon";
  /** one spelling for each image: `docker.io/library/golang:1.25`, `oci:/absolute/path:tag` */
  canonical: string;
  /** name of the image for skopeo, with its transport */
  source: string;
  /** host of the registry, with its port if that is named */
  registry?: string;
  /** host and path, without tag and digest */
  repository?: string;
  /** `sha256:…` that the reference pins */
  digest?: string;
}

/** Longest reference, in characters. */
const REFERENCE_MAX = 1024;
const DEFAULT_REGISTRY = "docker.io";
const TAG = /^\w[\w.-]{0,127}$/;
const DIGEST = /^sha256:[0-9a-f]{64}$/;
/** Parts of a repository's path, as the distribution specification has them. */
const PATH = /^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:\/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*$/;
const HOST = /^(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:]+\])(?::\d{1,5})?$/;

/**
 * Reads the name of an image: `golang:1.25`, `registry/name@sha256:…`, `oci:DIR[:TAG]`,
 * `docker-archive:FILE` or `docker-daemon:NAME`.
 *
 * @throws {SbxError} `environment.reference.invalid`
 */
export function parseReference(text: string): Reference {
  if (text.length > REFERENCE_MAX || /[\s\p{Cc}]/u.test(text)) throw invalid(text);
  const [, transport, rest] = /^(docker|oci|docker-archive|docker-daemon):(.+)$/.exec(text) ?? [];
  if (transport === "oci") {
    const [, path, tag] = /^(.*?)(?::([^:/]+))?$/.exec(rest)!;
    if (path === "" || tag !== undefined && !TAG.test(tag)) throw invalid(text);
    const source = `oci:${withoutColon(resolve(path), text)}${tag ? `:${tag}` : ""}`;
    return { kind: "oci", canonical: source, source };
  }
  if (transport === "docker-archive") {
    const source = `docker-archive:${withoutColon(resolve(rest), text)}`;
    return { kind: "docker-archive", canonical: source, source };
  }
  const isDaemon = transport === "docker-daemon";
  const { registry, path, tag, digest } = parseName(
    transport === "docker" && rest.startsWith("//") ? rest.slice(2) : isDaemon ? rest : text,
    text,
  );
  const repository = `${registry}/${path}`;
  // A digest names the image; a tag beside it says nothing more.
  const canonical = `${repository}${digest ? `@${digest}` : `:${tag ?? "latest"}`}`;
  if (isDaemon) {
    const source = `docker-daemon:${canonical}`;
    return { kind: "docker-daemon", canonical: source, source };
  }
  return {
    kind: "registry",
    canonical,
    source: `docker://${canonical}`,
    registry,
    repository,
    ...(digest && { digest }),
  };
}

function parseName(
  name: string,
  text: string,
): { registry: string; path: string; tag?: string; digest?: string } {
  const [before, digest, more] = name.split("@");
  const [, named, tag] = /^(.*?)(?::([^:/]+))?$/.exec(before)!;
  const slash = named.indexOf("/");
  const host = named.slice(0, slash);
  const hasHost = slash > 0 && (/[.:]/.test(host) || host === "localhost");
  const registry = hasHost ? host : DEFAULT_REGISTRY;
  const short = hasHost ? named.slice(slash + 1) : named;
  const isOfficial = (registry === DEFAULT_REGISTRY || registry === "index.docker.io") &&
    !short.includes("/");
  const path = isOfficial ? `library/${short}` : short;
  const isValid = more === undefined && HOST.test(registry) && PATH.test(path) && path.length <= 255 &&
    (tag === undefined || TAG.test(tag)) && (digest === undefined || DIGEST.test(digest));
  if (!isValid) throw invalid(text);
  return {
    registry: registry === "index.docker.io" ? DEFAULT_REGISTRY : registry.toLowerCase(),
    path,
    tag,
    digest,
  };
}

/** skopeo takes a colon for the begin of a tag. */
function withoutColon(path: string, text: string): string {
  if (path.includes(":")) throw invalid(text);
  return path;
}

function invalid(text: string): SbxError {
  return new SbxError("environment.reference.invalid", `"${text.slice(0, 200)}" does not name an image`, {
    hint:
      "write golang:1.25, ghcr.io/owner/name:tag, name@sha256:…, oci:DIR[:TAG], docker-archive:FILE or docker-daemon:NAME",
  });
}
