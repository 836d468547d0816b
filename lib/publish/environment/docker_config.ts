/**
 * Logins at registries that Docker's configuration of this machine has, with its credential helpers and its
 * store of credentials. skopeo reads no store: what `docker login` keeps there it would not find.
 */
import { join } from "node:path";
import { ifFound, ignore, SbxError } from "../../base/error/mod.ts";
import { parseJson } from "../../base/json/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";
import type { Reference } from "../../release/environment/mod.ts";

/** Longest configuration, and longest answer of a helper, in `bytes`. */
const CONFIG_FILE_MAX = 4 * 1024 ** 2, ANSWER_MAX = 64 * 1024;
/** Longest time of a helper, in `ms`: it may ask the person. */
const HELPER_MS = timeLimit(120_000);
/** User of a login whose secret is an OAuth identity token. */
const TOKEN_USER = "<token>";
/** Docker Hub, as names of images and as Docker's configuration have it. */
const HUB = "docker.io", HUB_SERVER = "https://index.docker.io/v1/";

/** A login at a registry. */
export interface HostLogin {
  /** registry, or a part of its repositories, as image names begin with it */
  registry: string;
  user: string;
  password: string;
  /** the password is an OAuth identity token, which the registry changes for a token of its own */
  isToken: boolean;
}

interface DockerConfig {
  auths?: Record<string, { auth?: unknown; username?: unknown; password?: unknown; identitytoken?: unknown }>;
  credHelpers?: Record<string, unknown>;
  credsStore?: unknown;
}

/** Variables of the process. */
type Variables = Pick<typeof Deno.env, "get">;

/**
 * The login for an image: of Docker's configuration (`DOCKER_CONFIG`, `~/.docker`), or of the file that
 * `podman login` and `skopeo login` write.
 *
 * @returns undefined: there is none
 * @throws {SbxError} `environment.login`: a file or a helper that the configuration names fails
 */
export async function findLogin(
  { registry, repository }: Pick<Reference, "registry" | "repository">,
  env: Variables = Deno.env,
): Promise<HostLogin | undefined> {
  if (registry === undefined || repository === undefined) return undefined;
  for (const path of configPaths(env)) {
    const config = await readConfig(path);
    const found = config && await loginIn(config, registry, repository);
    if (found) return found;
  }
  return undefined;
}

/** The file of a login for skopeo, in Docker's format. */
export function authFile({ registry, user, password, isToken }: HostLogin): string {
  const auth = isToken ? { identitytoken: password, auth: base64(`${TOKEN_USER}:`) } : {
    auth: base64(`${user}:${password}`),
  };
  return JSON.stringify({ auths: { [registry]: auth } });
}

function configPaths(env: Variables): string[] {
  const docker = env.get("DOCKER_CONFIG");
  if (docker) return [join(docker, "config.json")];
  const named = env.get("REGISTRY_AUTH_FILE");
  if (named) return [named];
  const [runtime, home] = [env.get("XDG_RUNTIME_DIR"), env.get("HOME")];
  return [
    ...runtime ? [join(runtime, "containers/auth.json")] : [],
    ...home ? [join(home, ".config/containers/auth.json"), join(home, ".docker/config.json")] : [],
  ];
}

async function readConfig(path: string): Promise<DockerConfig | undefined> {
  const info = await ifFound(Deno.stat(path));
  if (!info) return undefined;
  try {
    if (!info.isFile || info.size > CONFIG_FILE_MAX) throw new Error("not a short file");
    const value = parseJson(await Deno.readTextFile(path));
    if (typeof value !== "object" || value === null) throw new Error("not an object");
    return value as DockerConfig;
  } catch (cause) {
    throw failed(`${path} cannot be read`, "it is the configuration of docker login; write it again", cause);
  }
}

/** A helper for the registry goes before the store, and the store before passwords in the file. */
async function loginIn(
  { auths, credHelpers, credsStore }: DockerConfig,
  registry: string,
  repository: string,
): Promise<HostLogin | undefined> {
  const server = registry === HUB ? HUB_SERVER : registry;
  const [helper] = matching(credHelpers, repository);
  if (helper) return await askHelper(helper.value, server, registry);
  const known = matching(auths, repository);
  if (typeof credsStore === "string" && credsStore !== "") {
    const found = await askHelper(credsStore, known.at(0)?.key ?? server, registry);
    if (found) return found;
  }
  for (const { name, value } of known) {
    const found = loginOf(name, value ?? {});
    if (found) return found;
  }
  return undefined;
}

/** Entries for a repository, the one that names most of it first. */
function matching<T>(entries: Record<string, T> | undefined, repository: string) {
  return Object.entries(entries ?? {})
    .map(([key, value]) => ({ key, name: nameOf(key), value }))
    .filter(({ name }) => repository === name || repository.startsWith(`${name}/`))
    .toSorted((a, b) => b.name.length - a.name.length);
}

/** A key as names of images begin: Docker writes URLs, with the version of the protocol. */
function nameOf(key: string): string {
  const name = key.replace(/^https?:\/\//, "").replace(/\/+$/, "").replace(/\/v[12]$/, "");
  const [host, ...path] = name.split("/");
  const isHub = host === "index.docker.io" || host === "registry-1.docker.io";
  return [isHub ? HUB : host.toLowerCase(), ...path].join("/");
}

function loginOf(
  registry: string,
  { auth, username, password, identitytoken }: NonNullable<DockerConfig["auths"]>[string],
): HostLogin | undefined {
  if (typeof identitytoken === "string" && identitytoken !== "") {
    return { registry, user: TOKEN_USER, password: identitytoken, isToken: true };
  }
  if (typeof username === "string" && typeof password === "string" && username !== "") {
    return { registry, user: username, password, isToken: false };
  }
  if (typeof auth !== "string" || auth === "") return undefined;
  let text: string;
  try {
    text = new TextDecoder().decode(Uint8Array.fromBase64(auth));
  } catch {
    throw failed(`the login at ${registry} is not base64`, `docker login ${registry} writes it again`);
  }
  const at = text.indexOf(":");
  // Docker pads the password with zeros.
  const secret = text.slice(at + 1).replace(/\0+$/, "");
  return at < 1 ? undefined : { registry, user: text.slice(0, at), password: secret, isToken: false };
}

/** Runs `docker-credential-NAME get` on this host. */
async function askHelper(name: unknown, server: string, registry: string): Promise<HostLogin | undefined> {
  if (typeof name !== "string" || !/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(name)) {
    throw failed(
      `Docker's configuration names no credential helper for ${registry}`,
      "check its credHelpers",
    );
  }
  const program = `docker-credential-${name}`;
  const { success, stdout } = await answerOf(program, server).catch((cause) => {
    throw failed(
      `${program}, which has the login at ${registry}, cannot be run`,
      "install it, or log in again",
      cause,
    );
  });
  const text = new TextDecoder().decode(stdout.subarray(0, ANSWER_MAX));
  if (!success) {
    if (/credentials not found/i.test(text)) return undefined;
    // Its words may repeat parts of its input.
    throw failed(
      `${program} gave no login at ${registry}`,
      `run it by hand: echo ${server} | ${program} get`,
    );
  }
  const { Username: user, Secret: password } = answerIn(text);
  if (typeof user !== "string" || typeof password !== "string") {
    throw failed(`${program} gave no login at ${registry}`, "it should answer a Username and a Secret");
  }
  // A helper that knows no login may answer empty texts.
  return user === "" || password === ""
    ? undefined
    : { registry, user, password, isToken: user === TOKEN_USER };
}

async function answerOf(program: string, server: string): Promise<Deno.CommandOutput> {
  const child = new Deno.Command(program, {
    args: ["get"],
    stdin: "piped",
    stdout: "piped",
    stderr: "inherit",
    signal: AbortSignal.timeout(HELPER_MS),
  }).spawn();
  const writer = child.stdin.getWriter();
  const written = writer.write(new TextEncoder().encode(server)).then(() => writer.close()).catch(
    ignore("a helper that ends early closes its input; its exit code is reported"),
  );
  const output = await child.output();
  await written;
  return output;
}

function answerIn(text: string): { Username?: unknown; Secret?: unknown } {
  try {
    const value = parseJson(text);
    return typeof value === "object" && value !== null ? value : {};
  } catch {
    return {};
  }
}

function base64(text: string): string {
  return new TextEncoder().encode(text).toBase64();
}

function failed(problem: string, hint: string, cause?: unknown): SbxError {
  return new SbxError("environment.login", problem, { cause, hint });
}
