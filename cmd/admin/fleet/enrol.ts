/** `sbx-admin fleet enrol`, `homes` and `bind`: certifies a machine at a receiver, and the homes on it. */
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { type Arguments, type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { note, print, printJson } from "../../../lib/base/print/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { shownAddress } from "../../../lib/base/url/mod.ts";
import { deviceName, type LocalUser, localUsers, readAsUser } from "../../../lib/base/user/mod.ts";
import { sinkAuthorization } from "../../../lib/credential/mod.ts";
import {
  ensureMachineKey,
  homeProofPath,
  isHomeProof,
  type KeyPlace,
  type MachineKey,
  makeHomeCertificate,
  openMachineKey,
  readEnrolment,
  readHome,
  type TpmUse,
  writeEnrolment,
  writeHome,
} from "../../../lib/fleet/enrolment/mod.ts";
import { enrol, enrolHome } from "../../../lib/fleet/receive/mod.ts";
import { HttpTarget } from "../../../lib/fleet/ship/mod.ts";
import { useNetworkOf } from "../../../lib/home/mod.ts";
import { formatPublicKey, keyPaths, parseMachineKey } from "../../../lib/release/signing/mod.ts";

/** Largest token from standard input, and largest file of a home's public key or proof, in `bytes`. */
const TOKEN_BYTES_MAX = 4096;
const KEY_BYTES_MAX = 4096;

/** Refusals of one home: others may be taken. */
const REFUSALS: readonly unknown[] = [
  "fleet.denied",
  "fleet.refused",
  "fleet.home.invalid",
  "fleet.machine.invalid",
  "fleet.machine.ended",
];

const AT = { name: "at", value: "URL", about: "the receiver; default the collector of corp.toml" };

/** `sbx-admin fleet enrol`: this machine, by root's key. */
export const fleetEnrol: Command = {
  name: "fleet enrol",
  usage: "[--name NAME] [--at URL] [--tpm required|off] [--json]",
  summary: "enrol this machine with a token from standard input, and certify its users' homes",
  notes: [
    "Run it as root. The key of the machine is a file beside corp.toml that only root reads. Where there is a TPM 2.0 and the package tpm2-tools, the TPM seals it, so that a copy of the disk does not open it elsewhere; a key that is a file already is sealed too.",
    "Homes of users that come later are certified by sbx-admin fleet homes, from a timer.",
  ],
  options: [
    { name: "name", value: "NAME", about: "name of this machine; default its host name" },
    AT,
    {
      name: "tpm",
      value: "USE",
      choices: ["required", "off"],
      about:
        "required: fail where the TPM cannot seal the key; off: do not use it; default [fleet] tpm of corp.toml",
    },
    JSON_OPTION,
  ],
  words: { min: 0, max: 0 },
  examples: ["sbx-admin fleet enrol < token.txt", "sbx-admin fleet enrol --tpm required < token.txt"],
  async run(args) {
    const receiver = await openReceiver(args);
    const use = tpmUse(args, receiver.tpm);
    const token = await readToken();
    const name = args.text("name") ?? deviceName();
    const machine = await ensureMachineKey(receiver.corpPath, use);
    if (machine.warning !== undefined) note(machine.warning);
    const { publicKey } = machine.key;
    const public_key = formatPublicKey(publicKey);
    await receiver.enrol({ token, public_key, name });
    await writeEnrolment(receiver.corpPath, {
      schema: "sbx.fleet-enrolment.v1",
      machine_id: publicKey.id,
      public_key,
      name,
      collector: receiver.name,
      enrolled_at: new Date().toISOString(),
    });
    const { homes } = await certify(receiver, machine, await homesOf(args));
    if (args.has("json")) {
      await printJson({
        machine_id: publicKey.id,
        name,
        collector: receiver.name,
        key: machine.place,
        homes,
      });
    } else {
      await print(
        `enrolled ${name} (${publicKey.id.slice(0, 16)}) at ${receiver.name}, with ${
          count(homes.length, "home")
        }`,
      );
      note(describePlace(machine.place));
    }
    return 0;
  },
};

/** @param corp value of corp.toml, which wins over `--tpm off` */
function tpmUse(args: Arguments, corp: TpmUse): TpmUse {
  const asked = args.text("tpm");
  if (asked === "off" && corp === "required") {
    throw new SbxError("fleet.tpm.required", "corp requires the TPM for the key of this machine", {
      hint: "leave --tpm out",
    });
  }
  return asked === "off" || asked === "required" ? asked : corp;
}

function describePlace({ in: place, path }: KeyPlace): string {
  return `its key is in ${path}, ${
    place === "tpm" ? "which this machine's TPM sealed" : "not bound to a TPM"
  }`;
}

/** `sbx-admin fleet bind`: has the TPM seal the key of an enrolled machine. */
export const fleetBind: Command = {
  name: "fleet bind",
  usage: "[--json]",
  summary: "bind the key of this machine to its TPM",
  notes: [
    "Run it as root, with the package tpm2-tools. The machine and its homes stay enrolled: the key is the same. Copies of the disk from before have the key in a file.",
  ],
  options: [JSON_OPTION],
  words: { min: 0, max: 0 },
  examples: ["sbx-admin fleet bind"],
  async run(args) {
    const { path: corpPath } = await useNetworkOf(home());
    // With a key, and enrolled.
    await openMachineKey(corpPath, "auto");
    const { key, place } = await ensureMachineKey(corpPath, "required");
    if (args.has("json")) await printJson({ machine_id: key.publicKey.id, key: place });
    else await print(`${key.publicKey.id.slice(0, 16)}: ${describePlace(place)}`);
    return 0;
  },
};

/** `sbx-admin fleet homes`: certifies homes of this machine. */
export const fleetHomes: Command = {
  name: "fleet homes",
  usage: "[--home DIR]... [--at URL] [--json]",
  summary: "certify the homes of this machine's users, so that they are in the fleet",
  notes: ["Run it as root, from a timer. A home has a key once its service has started."],
  options: [
    { name: "home", value: "DIR", many: true, about: "this home; default ~/.sbx of each user" },
    AT,
    JSON_OPTION,
  ],
  words: { min: 0, max: 0 },
  examples: ["sbx-admin fleet homes", "sbx-admin fleet homes --home /srv/ci/sbx"],
  async run(args) {
    const receiver = await openReceiver(args);
    const machine = await openMachineKey(receiver.corpPath, receiver.tpm);
    const { homes, refused } = await certify(receiver, machine, await homesOf(args));
    if (args.has("json")) await printJson({ key: machine.place, homes });
    else if (homes.length === 0 && refused === 0) {
      await print("no home has a key: a home has one once its service has started");
    } else {for (const { dir, user, home_id } of homes) {
        await print(`${home_id.slice(0, 16)}  ${user}  ${dir}`);
      }}
    if (!args.has("json")) note(describePlace(machine.place));
    return refused > 0 ? 1 : 0;
  },
};

interface HomeOfUser {
  dir: string;
  user: Pick<LocalUser, "name" | "uid" | "gid">;
}

async function homesOf(args: Arguments): Promise<HomeOfUser[]> {
  const users = await localUsers();
  const named = args.list("home");
  if (named.length === 0) return users.map((user) => ({ dir: join(user.home, ".sbx"), user }));
  return await Promise.all(named.map(async (given) => {
    const dir = resolve(given);
    const { uid, gid } = await Deno.stat(dir).catch((cause) => {
      throw new SbxError("home.not_found", `${dir} is not a home`, { cause, hint: "check the path" });
    });
    const name = users.find((user) => user.uid === uid)?.name ?? (uid === 0 ? "root" : `uid ${uid}`);
    return { dir, user: { name, uid: uid ?? 0, gid: gid ?? 0 } };
  }));
}

/**
 * Certifies each home that has a key, at the receiver first. One that is
 * refused keeps none of the others out.
 */
async function certify(receiver: OpenReceiver, { key }: MachineKey, homes: readonly HomeOfUser[]) {
  const enrolment = await readEnrolment(receiver.corpPath);
  let refused = 0;
  const certified: { dir: string; user: string; home_id: string }[] = [];
  for (const { dir, user } of homes) {
    const text = await readAsUser(user, keyPaths({ dir }).record, KEY_BYTES_MAX);
    if (text === "") continue;
    const home = parseMachineKey(text);
    if (!home) {
      note(`${dir}: its key cannot be read; it is left out`);
      continue;
    }
    // The lag that corp allows begins with a home's first certificate: a timer that made
    // another would end it each time.
    const before = enrolment && await readHome(receiver.corpPath, enrolment, home.id);
    if (before?.certificate.user !== user.name) {
      const proof = await readAsUser(user, homeProofPath({ dir }), KEY_BYTES_MAX);
      if (before || !await isHomeProof(proof, home, user.uid)) {
        note(
          `${dir}: ${
            before
              ? `its key is the one of ${before.certificate.user}`
              : `${user.name} has not proved to have its key`
          }; it is left out. Its service proves that when it starts: sbx stop, then sbx status`,
        );
        refused++;
        continue;
      }
    }
    const certificate = before?.envelope ?? await makeHomeCertificate(key, home, user.name);
    try {
      await receiver.enrolHome({ certificate });
    } catch (error) {
      if (!(error instanceof SbxError) || !REFUSALS.includes(error.code)) throw error;
      note(`${dir}: ${error.message}; it is left out`);
      refused++;
      continue;
    }
    if (!before) await writeHome(receiver.corpPath, home.id, certificate);
    certified.push({ dir, user: user.name, home_id: home.id });
  }
  return { homes: certified, refused };
}

interface OpenReceiver {
  /** its address, without credentials */
  name: string;
  corpPath: string;
  /** use of the TPM that corp.toml asks for */
  tpm: TpmUse;
  enrol(request: unknown): Promise<unknown>;
  enrolHome(request: unknown): Promise<unknown>;
}

/**
 * The receiver of `--at` or corp.toml, reached with corp's proxy and certificate authorities.
 * @throws {SbxError} `fleet.url.…`
 */
async function openReceiver(args: Arguments): Promise<OpenReceiver> {
  const { state, path: corpPath } = await useNetworkOf(home());
  const { url: configured, credential_ref, user } = "config" in state ? state.config.file.fleet : {};
  // A broken corp.toml without a good version before it locks what it could lock.
  const tpm = "config" in state
    ? state.config.file.fleet.tpm
    : state.status === "closed"
    ? "required"
    : "auto";
  const url = args.text("at") ?? configured;
  if (url === undefined) {
    throw new SbxError("fleet.url.missing", "corp.toml names no collector", {
      hint: 'set [fleet] url = "https://HOST" in corp.toml, or name the receiver: --at https://HOST',
    });
  }
  const parsed = URL.parse(url);
  if (parsed?.protocol === "file:") {
    const dir = fileURLToPath(parsed);
    return {
      name: dir,
      corpPath,
      tpm,
      enrol: (request) => enrol(dir, request),
      enrolHome: (request) => enrolHome(dir, request),
    };
  }
  if (!parsed || !/^https?:$/.test(parsed.protocol)) {
    throw new SbxError("fleet.url.invalid", `no machine is enrolled at "${shownAddress(url)}"`, {
      hint: "name the receiver: --at https://HOST",
    });
  }
  // The collector's credential is not for other receivers.
  const authorize = credential_ref && url === configured &&
    sinkAuthorization(home(), { credential_ref, ...(user && { user }) });
  const target = new HttpTarget(url, undefined, authorize || undefined);
  return {
    name: target.name,
    corpPath,
    tpm,
    enrol: (request) => target.enrol(request),
    enrolHome: (request) => target.enrolHome(request),
  };
}

async function readToken(): Promise<string> {
  const bytes = new Uint8Array(TOKEN_BYTES_MAX);
  let length = 0;
  while (length < bytes.length) {
    const read = await Deno.stdin.read(bytes.subarray(length));
    if (read === null) break;
    length += read;
  }
  const token = new TextDecoder().decode(bytes.subarray(0, length)).trim();
  if (token !== "") return token;
  throw new SbxError("fleet.token.invalid", "standard input has no token", {
    hint: "redirect a file with it: sbx-admin fleet enrol < token.txt",
  });
}
