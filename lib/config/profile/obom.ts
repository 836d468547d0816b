/** OBOM of a profile's image: found, verified and read. */
import { z } from "zod";
import { type Arch, currentArch } from "../../base/arch/mod.ts";
import { type AssetFile, verifyFile } from "../../release/asset/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import { blake3 } from "../../base/hash/mod.ts";
import { decodeUtf8 } from "../../base/text/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { imageAssets, pinnedFile } from "./asset.ts";
import type { Profile } from "./profile.ts";
import type { Obom } from "./schema.ts";

/** Largest OBOM read into memory for its descriptor, in `bytes`. */
const OBOM_LIMIT = 64 * 1024 * 1024;

const GONE = "is gone";

/**
 * Property of an OBOM's `metadata.component`: version of the messages of the image's guest programs
 * (docs/design/contracts/07-guest-wire.md §7).
 */
export const GUEST_VERSION_PROPERTY = "sbx:guest:version";
const Described = z.object({
  metadata: z.object({
    component: z.object({ properties: z.array(z.object({ name: z.string(), value: z.string() })) }),
  }),
});

/** Program that wrote an OBOM, by its own metadata. */
export interface ObomGenerator {
  generator: string;
  generator_version: string;
}

/** Reads the generator of an OBOM; `undefined` if its bytes do not name it. */
export function describeObom(bytes: Uint8Array): ObomGenerator | undefined {
  try {
    const { metadata } = JSON.parse(decodeUtf8(bytes) ?? "");
    const { name, version } = metadata.tools.components[0];
    return { generator: String(name), generator_version: String(version) };
  } catch {
    return undefined;
  }
}

/** OBOM with its file on this host. */
interface LocatedObom {
  descriptor: Obom;
  file: AssetFile;
}

/**
 * Descriptor of a profile's OBOM for one architecture: the profile's own, or that of the installed assets if
 * the profile boots from them. `undefined` if neither exists.
 *
 * @throws {SbxError} `assets.mismatch` (412): the installed one is damaged
 */
export async function obomDescriptor(
  home: Home,
  profile: Profile,
  arch: Arch = currentArch(),
): Promise<Obom | undefined> {
  return (await locate(home, profile, arch))?.descriptor;
}

/**
 * Reads an OBOM after verifying its size and BLAKE3.
 *
 * @throws {SbxError} `obom.not_found` (404), `assets.mismatch` (412), `assets.missing` (412)
 */
export async function readObom(
  home: Home,
  profile: Profile,
  arch: Arch = currentArch(),
): Promise<Uint8Array<ArrayBuffer>> {
  const file = await findFile(home, profile, arch);
  if (!file) {
    throw new SbxError("obom.not_found", `profile "${profile.id}" has no OBOM for ${arch}`, {
      hint: "sbx profile info ID shows the OBOM of a profile",
    });
  }
  return await readVerified(file, () => lackError(file, GONE, profile, arch));
}

/**
 * Reads a file, and verifies the very bytes that are returned: one that is changed between a check and a
 * reading of its own would pass.
 *
 * @throws {SbxError} `assets.mismatch`, `assets.missing` (412)
 */
async function readVerified(file: AssetFile, gone: () => SbxError): Promise<Uint8Array<ArrayBuffer>> {
  const { path, size, hash } = file;
  const info = await Deno.stat(path).catch((error) => {
    if (error instanceof Deno.errors.NotFound) throw gone();
    return null;
  });
  // A file of another size is not read at all.
  const bytes = info?.size === size ? await Deno.readFile(path).catch(() => undefined) : undefined;
  if (bytes && blake3(bytes) === hash) return bytes;
  await verifyFile(file);
  throw new SbxError("assets.mismatch", `${path} was changed while it was read`, {
    hint: "try again; or install it again: sbx update --assets --manifest <URL>",
  });
}

/**
 * Looks whether the file of a profile's OBOM is there, with its size; {@linkcode readObom} hashes it.
 *
 * @returns `assets.missing`, with the way to get it again; undefined when it is there, or nothing pins one
 */
export async function missingObom(
  home: Home,
  profile: Profile,
  arch: Arch = currentArch(),
): Promise<SbxError | undefined> {
  // A profile without an image is reported separately.
  const file = await findFile(home, profile, arch).catch(() => undefined);
  const info = file && await Deno.stat(file.path).catch(() => null);
  if (!file || info?.isFile && info.size === file.size) return undefined;
  return lackError(file, info?.isFile ? `has ${info.size} bytes, not ${file.size}` : GONE, profile, arch);
}

/**
 * Version of the guest programs in a profile's image, from its OBOM; undefined for a missing or unreadable
 * OBOM, or one from before OBOMs recorded it.
 */
export async function guestVersion(
  home: Home,
  profile: Profile,
  arch: Arch = currentArch(),
): Promise<string | undefined> {
  const bytes = await readObom(home, profile, arch).catch(() => new Uint8Array());
  const { data } = Described.safeParse(parseJson(bytes));
  return data?.metadata.component.properties.find(({ name }) => name === GUEST_VERSION_PROPERTY)?.value;
}

function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return undefined;
  }
}

/** The message names the file alone: several profiles may have the same image. */
function lackError({ path }: AssetFile, what: string, { id, obom }: Profile, arch: Arch): SbxError {
  const pin = obom?.arch[arch];
  const again = !pin
    ? "sbx update --assets"
    : URL.canParse(pin.url)
    ? `sbx update pins ${id}`
    : `sbx update profiles ${id}`;
  return new SbxError("assets.missing", `the pinned OBOM ${path} ${what}`, {
    hint: `install it again: ${again}`,
  });
}

/** The OBOM's file, described or not: one that cannot be read is damaged, and not absent. */
async function findFile(home: Home, profile: Profile, arch: Arch): Promise<AssetFile | undefined> {
  const pin = profile.obom?.arch[arch];
  if (pin) return await pinnedFile(home, pin);
  return profile.assets ? undefined : (await imageAssets(home, profile, arch)).obom;
}

async function locate(home: Home, profile: Profile, arch: Arch): Promise<LocatedObom | undefined> {
  const pin = profile.obom?.arch[arch];
  if (pin) return { descriptor: pin, file: await pinnedFile(home, pin) };
  if (profile.assets) return undefined;
  const assets = await imageAssets(home, profile, arch).catch(() => undefined);
  const obom = assets?.obom;
  return obom && await describeInstalled(obom, assets.rootfs, () => lackError(obom, GONE, profile, arch));
}

/**
 * Describes an installed OBOM by its own metadata, which is parsed once it is
 * verified; `undefined` when it has none.
 *
 * @throws {SbxError} `assets.mismatch`, `assets.missing` (412)
 */
async function describeInstalled(
  file: AssetFile,
  rootfs: AssetFile,
  gone: () => SbxError,
): Promise<LocatedObom | undefined> {
  if (file.size > OBOM_LIMIT) return undefined;
  const described = describeObom(await readVerified(file, gone));
  if (!described) return undefined;
  const { name, path, hash, size } = file;
  const descriptor = {
    name,
    url: `file://${path}`,
    hash: `blake3:${hash}`,
    size,
    ...described,
    rootfs_hash: `blake3:${rootfs.hash}`,
  };
  return { descriptor, file };
}
