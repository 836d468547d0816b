/** Images from Dockerfiles: the VM that builds them, its output, and the options of commands. */
import { join, resolve } from "node:path";
import { type Arch, currentArch } from "../../../lib/base/arch/mod.ts";
import type { Arguments, Command, Option } from "../../../lib/base/args/mod.ts";
import { ignore, SbxError } from "../../../lib/base/error/mod.ts";
import { home, lockWithin } from "../../../lib/base/home/mod.ts";
import { note, plain } from "../../../lib/base/print/mod.ts";
import { Progress } from "../../../lib/base/progress/mod.ts";
import type { VmSummary } from "../../../lib/client/api/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import type { CorpState } from "../../../lib/config/corp/mod.ts";
import type { Base, BuildPlan, BuildVm, Context, Features } from "../../../lib/publish/build/mod.ts";
import type { Environment } from "../../../lib/release/environment/mod.ts";
import { connect } from "../connect.ts";
import { VmGuest } from "../files/repository.ts";
import { usageError } from "../output.ts";
import { archOf, waitUntilRunning } from "./new_vm.ts";
import { streamAside } from "./program.ts";

/** Profile of the VMs that build. */
const BUILDER_PROFILE = "builder";
/** Time in which a lock is there without a word, in `ms`. */
const BUSY_MS = 500;

/** Name of a build without a Dockerfile, for people. */
const FEATURES = "the features of devcontainer.json";

/** Options for a build. */
export const BUILD_OPTIONS: Option[] = [
  { name: "file", value: "FILE", about: "the Dockerfile; default Dockerfile of the folder" },
  { name: "target", value: "STAGE", about: "stage of the Dockerfile to build; default the last" },
  {
    name: "build-arg",
    value: "K=V",
    many: true,
    about: "set an ARG of the Dockerfile; K alone takes the value of sbx's environment",
  },
  {
    name: "secret",
    value: "id=ID,ref=REF",
    many: true,
    about: "a credential for RUN --mount=type=secret,id=ID, which gets its ref",
  },
  {
    name: "login",
    value: "registry=HOST,user=USER,ref=REF",
    many: true,
    about: "a stored credential for a registry of base images and features",
  },
];

/** Options of `sbx image build` for a build. */
export const IMAGE_BUILD_OPTIONS: Option[] = [
  ...BUILD_OPTIONS,
  { name: "tag", short: "t", value: "NAME[:TAG]", about: "name of the image; default the folder's" },
  { name: "with-secrets", about: "also files that look like secrets, such as .env and *.pem" },
  { name: "pull", about: "build even if nothing changed, with the newest base images" },
];

/** The image of a build. */
export interface BuiltImage {
  environment: Environment;
  /** names of this machine: `localhost/NAME:TAG`, and the same by digest */
  reference: string;
  pinned: string;
  /** false: the same inputs made it before */
  isNew: boolean;
}

/** A build in a `devcontainer.json`. */
export interface BuildDefaults {
  /** reference of the image that takes the place of a Dockerfile and of the folder's files */
  image?: string;
  file?: string;
  target?: string;
  args?: Record<string, string>;
  features?: Features;
}

/**
 * Builds the image of a folder's Dockerfile, unless the same inputs made one before.
 *
 * @param defaults in place of options that are not given
 * @returns the image, or the exit code of a build that failed
 * @throws {SbxError} `build.*`, `environment.*`, `corp.image`, `disk.full`
 */
export async function buildFolderImage(
  command: Command,
  args: Arguments,
  dir: string,
  defaults: BuildDefaults = {},
): Promise<BuiltImage | number> {
  const [{ parseLogin, parseSecret, readContext, tagReference }, { requireCorpImage }, { useNetworkOf }] =
    await Promise.all([
      import("../../../lib/publish/build/mod.ts"),
      import("../../../lib/config/corp/mod.ts"),
      import("../../../lib/home/mod.ts"),
    ]);
  const place = home();
  const arch = archOf(args) ?? currentArch();
  const { image, features } = defaults;
  const context: Context = image === undefined
    ? await readContext(dir, {
      file: args.text("file") ?? defaults.file,
      withSecrets: args.has("with-secrets"),
    })
    : { dir: resolve(dir), dockerfile: `FROM ${image}\n`, name: FEATURES, files: [], secretsLeftOut: [] };
  if (features) context.features = features;
  for (const path of context.secretsLeftOut) {
    note(`sbx: left out of the build: ${plain(path)}: looks like a secret (--with-secrets takes it)`);
  }
  const reference = tagReference(context.dir, args.text("tag"));
  const { state } = await useNetworkOf(place);
  requireCorpImage(state, { reference: reference.canonical });
  if (image !== undefined) requireCorpImage(state, { reference: image });
  const named = args.list("secret").map(parseSecret);
  const secrets = named.length === 0 ? [] : await fullRefs(named);
  const loggedIn = args.list("login").map(parseLogin);
  const logins = loggedIn.length === 0 ? [] : await fullRefs(loggedIn);
  return await buildContext(context, {
    arch,
    target: args.text("target") ?? defaults.target,
    args: { ...defaults.args, ...parseBuildArgs(command, args.list("build-arg")) },
    secrets,
    logins,
    reference,
    pull: args.has("pull"),
  }, state);
}

/**
 * Builds the image of a context, unless the same inputs made one before.
 *
 * @param state of corp, which allows the image's name already
 * @returns as {@linkcode buildFolderImage}
 */
export async function buildContext(
  context: Context,
  inputs: Omit<BuildPlan, "context" | "key">,
  state: CorpState,
): Promise<BuiltImage | number> {
  const [{ buildKey, buildVmName, findBuild }, { requireCorpImage }] = await Promise.all([
    import("../../../lib/publish/build/mod.ts"),
    import("../../../lib/config/corp/mod.ts"),
  ]);
  const place = home();
  const { arch, target, args, secrets, reference } = inputs;
  const refs = Object.fromEntries(secrets.map(({ id, ref }) => [id, ref]));
  const plan: BuildPlan = {
    ...inputs,
    context,
    key: buildKey(context, { arch, target, args, secrets: refs }),
  };
  const built = (environment: Environment, isNew: boolean): BuiltImage => ({
    environment,
    reference: reference.canonical,
    pinned: `${reference.repository}@${environment.digest}`,
    isNew,
  });
  const known = plan.pull ? undefined : await findBuild(place, plan);
  if (known) return built(known, false);
  const name = buildVmName(context.dir);
  using _lock = await lockBuilder(name);
  // Another build of the same inputs may have held the lock.
  const made = plan.pull ? undefined : await findBuild(place, plan);
  if (made) return built(made, false);
  const result = await buildIn(name, plan, (bases, signal) => checkBases(state, bases, arch, signal));
  if ("exitCode" in result) {
    note(`sbx: the build of ${context.name} failed with exit code ${result.exitCode}`);
    return result.exitCode;
  }
  requireCorpImage(state, { ...result.environment, reference: reference.canonical });
  return built(result.environment, true);
}

async function buildIn(
  name: string,
  plan: BuildPlan,
  check: (bases: Base[], signal: AbortSignal) => Promise<Base[]>,
): Promise<{ environment: Environment } | { exitCode: number }> {
  const [
    { BUILD_STAGES, runBuild },
    { loadProfile },
    { withInterrupts },
    { requireImage },
    { showAsks },
    { lendLogins },
  ] = await Promise.all([
    import("../../../lib/publish/build/mod.ts"),
    import("../../../lib/config/profile/mod.ts"),
    import("../../../lib/publish/image/mod.ts"),
    import("./profile_image.ts"),
    import("./shown_asks.ts"),
    import("./build_login.ts"),
  ]);
  await requireImage(await loadProfile(home(), BUILDER_PROFILE), true);
  const client = await connect();
  return await withInterrupts(async (signal) => {
    const vm = await openBuilder(client, name, plan);
    let progress: Progress | undefined;
    try {
      note(`sbx: building ${plan.context.name} in the VM ${name}: sbx net ${name} shows its downloads`);
      using _asks = showAsks(client, vm.id);
      const later = {
        stage: (stage: string, total?: number) => progress?.stage(stage, total),
        advance: (units: number) => progress?.advance(units),
      };
      await using lent = await lendLogins(client, vm, plan);
      const logins = [...plan.logins, ...lent.logins];
      return await runBuild(new Builder(client, vm, signal), { ...plan, logins }, {
        home: home(),
        progress: later,
        signal,
        checkBases: (bases) => check(bases, signal),
        onBuilt: () => void (progress = new Progress(BUILD_STAGES)),
      });
    } finally {
      progress?.[Symbol.dispose]();
      // Its disk keeps the cache. A VM that was interrupted ends its programs, too.
      await client.json("POST", `/vms/${segment(vm.id)}/stop`).catch(
        ignore("the result of the build counts; sbx list shows a VM that still runs"),
      );
    }
  });
}

/**
 * Requires of base images what corp requires of images. Which ones they are is the word of the VM that built
 * on them: its steps are root there.
 */
async function checkBases(state: CorpState, bases: Base[], arch: Arch, signal: AbortSignal): Promise<Base[]> {
  const [{ requireCorpBase, signersOf }, { verifyImage }, { parseReference }] = await Promise.all([
    import("../../../lib/config/corp/mod.ts"),
    import("../../../lib/publish/environment/mod.ts"),
    import("../../../lib/release/environment/mod.ts"),
  ]);
  const checked: Base[] = [];
  for (const base of bases) {
    const { canonical, repository } = parseReference(base.reference);
    const signers = signersOf(state, canonical);
    const pinned = signers && parseReference(`${repository}@${base.digest}`);
    const signature = pinned && await verifyImage(pinned, { home: home(), arch, signal, signers });
    const each: Base = { ...base, ...signature && { signature } };
    requireCorpBase(state, each);
    checked.push(each);
  }
  return checked;
}

/** The VM of a folder's builds, running: the one that is there, or a new one. */
async function openBuilder(client: Client, name: string, { arch }: BuildPlan): Promise<VmSummary> {
  const { vms } = await client.json<{ vms: VmSummary[] }>("GET", "/vms/list");
  const known = vms.find((vm) => vm.name === name);
  if (known && known.profile_id !== BUILDER_PROFILE) {
    throw new SbxError("build.failed", `the VM ${name} does not build images`, {
      hint: `delete it, whose name a build needs: sbx delete ${name}`,
    });
  }
  if (known?.status === "Running") return known;
  const path = known && `/vms/${segment(known.id)}`;
  const json = { name, profile_id: BUILDER_PROFILE, persistent: true, arch };
  const vm = !path
    ? await client.json<VmSummary>("POST", "/vms/create", { json })
    : await client.json<VmSummary>("POST", `${path}/${known.status === "Stopped" ? "start" : "resume"}`);
  await waitUntilRunning(client, vm);
  return vm;
}

/** A VM that builds, with its output on this terminal. */
class Builder extends VmGuest implements BuildVm {
  readonly id: string;
  readonly #connection: Client;
  readonly #signal: AbortSignal;

  constructor(client: Client, { id, name }: VmSummary, signal: AbortSignal) {
    super(client, name);
    this.id = id;
    this.#connection = client;
    this.#signal = signal;
  }

  async follow(command: string[], see: (text: string) => void): Promise<number> {
    const response = await this.#connection.send("POST", `/vms/${segment(this.id)}/exec`, {
      json: { command },
      accept: "text/event-stream",
      signal: this.#signal,
    });
    return await streamAside(response, see);
  }
}

/** Waits until no other process builds in a VM. */
async function lockBuilder(name: string): Promise<Disposable> {
  const dir = join(home().dir, "builds");
  await Deno.mkdir(dir, { recursive: true, mode: 0o700 });
  const file = await Deno.open(join(dir, `${name}.lock`), { write: true, create: true, mode: 0o600 });
  if (!await lockWithin(file, BUSY_MS)) {
    note(`sbx: waiting for another sbx, which builds in the VM ${name}`);
    await file.lock(true);
  }
  return { [Symbol.dispose]: () => file.close() };
}

function parseBuildArgs(command: Command, settings: string[]): Record<string, string> {
  return Object.fromEntries(settings.map((setting) => {
    const [, name, value] = /^([A-Za-z_][A-Za-z0-9_]*)(?:=([^]*))?$/.exec(setting) ?? [];
    const content = value ?? (name && Deno.env.get(name));
    if (name === undefined || content === undefined || content.includes("\0")) {
      throw usageError(command, `invalid build argument "${setting}"`, "write --build-arg NAME=VALUE");
    }
    return [name, content];
  }));
}

/** Refs may be named by their first digits. */
async function fullRefs<T extends { ref: string }>(named: readonly T[]): Promise<T[]> {
  const { findRef } = await import("../rules/ref.ts");
  const client = await connect();
  return await Promise.all(named.map(async (each) => ({ ...each, ref: await findRef(client, each.ref) })));
}
