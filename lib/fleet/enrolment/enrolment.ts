/**
 * This machine's enrolment in a fleet: root's key, and certificates of its
 * homes, in a folder beside corp.toml.
 */
import { dirname, join } from "node:path";
import { z } from "zod";
import { ifFound, SbxError } from "../../base/error/mod.ts";
import { writeAtomic } from "../../base/home/mod.ts";
import type { Keyring } from "../../credential/mod.ts";
import type { PublicKey, SigningKey } from "../../release/mod.ts";
import {
  bindSigningKey,
  ensureSigningKey,
  findSigningKey,
  hasTpm,
  isFileLeft,
  keyPaths,
  parsePublicKeys,
  placeOfKey,
} from "../../release/signing/mod.ts";
import { HEX64 } from "../segment/mod.ts";
import { type HomeCertificate, openHomeCertificate } from "./certificate.ts";

/** Record of the enrolment. */
export const Enrolment = z.strictObject({
  schema: z.literal("sbx.fleet-enrolment.v1"),
  machine_id: z.string().regex(HEX64),
  public_key: z.string().max(1024),
  name: z.string().max(64),
  /** the receiver, without credentials */
  collector: z.string().max(2048),
  enrolled_at: z.iso.datetime(),
});
export type Enrolment = z.infer<typeof Enrolment>;

/** Files of a machine's enrolment. @param corpPath of corp.toml, whose folder only root writes */
export function enrolmentPaths(corpPath: string) {
  const folder = join(dirname(corpPath), "fleet");
  return { folder, machine: join(folder, "machine.json"), homes: join(folder, "homes") };
}

/** Device management and timers run without a session, and so without a keyring. */
const NO_KEYRING: Keyring = {
  get: () => Promise.resolve(undefined),
  set: () => Promise.resolve(),
};

/**
 * Use of the TPM for the machine's key: `auto` where there is one, `required` or not at all, `off` for no key
 * that is in a file now.
 */
export type TpmUse = "auto" | "required" | "off";

/** The machine's key, with its place. */
export interface MachineKey {
  key: SigningKey;
  place: KeyPlace;
  /** why a key that should be bound to the TPM is not */
  warning?: string;
}

export interface KeyPlace {
  in: "file" | "tpm";
  path: string;
}

/**
 * Reads or makes the machine's key, which only root can read, and has the TPM seal it (`use`).
 *
 * @throws {SbxError} `fleet.enrolment.unwritable`; `attest.key.…`, `attest.tpm.…`
 */
export async function ensureMachineKey(corpPath: string, use: TpmUse): Promise<MachineKey> {
  const { folder, homes } = enrolmentPaths(corpPath);
  return await withRootHint(folder, async () => {
    for (const dir of [folder, homes]) {
      await Deno.mkdir(dir, { recursive: true });
      // Also where root's umask is stricter: every user's service reads certificates.
      await Deno.chmod(dir, 0o755);
    }
    let warning: string | undefined;
    if (use === "required" || use === "auto" && await hasTpm()) {
      try {
        const key = await bindSigningKey({ dir: folder }, NO_KEYRING);
        return { key, place: await placeOf(folder) };
      } catch (error) {
        if (use === "required" || !(error instanceof SbxError)) throw error;
        const { code, message, cause, hint } = error;
        if (code === "attest.tpm.failed" && await placeOfKey({ dir: folder }) !== "tpm") {
          throw new SbxError(code, message, { cause, hint: `${hint}; or enrol with --tpm off` });
        }
        if (code !== "attest.tpm.tools_missing") throw error;
        warning = `${message}; ${hint}, and then sbx-admin fleet bind`;
      }
    }
    const key = await ensureSigningKey({ dir: folder }, NO_KEYRING);
    await removeLeft(folder);
    return { key, place: await placeOf(folder), ...(warning && { warning }) };
  });
}

/**
 * Opens the key of an enrolled machine.
 *
 * @throws {SbxError} `fleet.enrolment.missing`; `fleet.tpm.required`: the key is a file, and corp requires
 * the TPM; `attest.key.…`, `attest.tpm.…`
 */
export async function openMachineKey(corpPath: string, use: TpmUse): Promise<MachineKey> {
  const { folder } = enrolmentPaths(corpPath);
  await withRootHint(folder, () => ifFound(Deno.stat(keyPaths({ dir: folder }).record)));
  const key = await readEnrolment(corpPath) && await findSigningKey({ dir: folder }, NO_KEYRING);
  if (!key) {
    throw new SbxError("fleet.enrolment.missing", "this machine is not enrolled", {
      hint: "sbx-admin fleet enrol < token.txt",
    });
  }
  await withRootHint(folder, () => removeLeft(folder));
  const place = await placeOf(folder);
  if (use === "required" && place.in !== "tpm") {
    throw new SbxError("fleet.tpm.required", `corp requires the TPM, and ${place.path} is not bound to it`, {
      hint: "sbx-admin fleet bind",
    });
  }
  return { key, place };
}

/** Removes the file of a sealed key, which would be called bound while a copy of the disk has it. */
async function removeLeft(folder: string): Promise<void> {
  if (await isFileLeft({ dir: folder })) await bindSigningKey({ dir: folder }, NO_KEYRING);
}

async function placeOf(folder: string): Promise<KeyPlace> {
  const { secret, sealed } = keyPaths({ dir: folder });
  return await placeOfKey({ dir: folder }) === "tpm"
    ? { in: "tpm", path: sealed }
    : { in: "file", path: secret };
}

/** Records the enrolment. @throws {SbxError} `fleet.enrolment.unwritable` */
export async function writeEnrolment(corpPath: string, enrolment: Enrolment): Promise<void> {
  const { machine } = enrolmentPaths(corpPath);
  await withRootHint(machine, () => writeShared(machine, `${JSON.stringify(enrolment, null, 2)}\n`));
}

/**
 * Reads the enrolment of this machine; `undefined` without one.
 * @throws {SbxError} `fleet.enrolment.invalid`
 */
export async function readEnrolment(corpPath: string): Promise<Enrolment | undefined> {
  const { machine } = enrolmentPaths(corpPath);
  try {
    const text = await ifFound(Deno.readTextFile(machine));
    return text === undefined ? undefined : Enrolment.parse(JSON.parse(text));
  } catch (cause) {
    throw new SbxError(
      "fleet.enrolment.invalid",
      `the enrolment of this machine, ${machine}, cannot be read`,
      {
        cause,
        hint: "root enrols it again: sbx-admin fleet enrol < token.txt",
      },
    );
  }
}

/** Stores a home's certificate. @throws {SbxError} `fleet.enrolment.unwritable` */
export async function writeHome(corpPath: string, homeId: string, envelope: string): Promise<void> {
  const path = join(enrolmentPaths(corpPath).homes, `${homeId}.json`);
  await withRootHint(path, () => writeShared(path, envelope));
}

/** Reads and verifies a home's certificate; `undefined` if this machine has not certified the home. */
export async function readHome(
  corpPath: string,
  enrolment: Enrolment,
  homeId: string,
): Promise<{ certificate: HomeCertificate; envelope: string } | undefined> {
  const text = await ifFound(Deno.readTextFile(join(enrolmentPaths(corpPath).homes, `${homeId}.json`)));
  if (text === undefined) return undefined;
  const [key] = parsePublicKeys(enrolment.public_key, "the enrolment of this machine");
  const keyOf = (id: string): Promise<PublicKey | undefined> =>
    Promise.resolve(id === key.id ? key : undefined);
  const certificate = await openHomeCertificate(text, keyOf).catch(() => undefined);
  return certificate?.home_id === homeId ? { certificate, envelope: text } : undefined;
}

/** Writes a file that every user's service reads. */
async function writeShared(path: string, text: string): Promise<void> {
  await writeAtomic(path, text, 0o644);
  await Deno.chmod(path, 0o644);
}

/** Runs a write; its failure says that root must do it, or else its reason, such as a full disk. */
async function withRootHint<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    if (cause instanceof SbxError) throw cause;
    throw new SbxError("fleet.enrolment.unwritable", `${path} cannot be written`, {
      cause,
      hint: cause instanceof Error && !(cause instanceof Deno.errors.PermissionDenied)
        ? `check the file and its disk: ${cause.message}`
        : "run sbx-admin as root: the enrolment of a machine is root's",
    });
  }
}
