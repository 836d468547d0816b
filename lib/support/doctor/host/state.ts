/** sbx's own files: its home, credentials, CA, settings, corp.toml, images and profiles. */
import { currentArch } from "../../../base/arch/mod.ts";
import { join } from "node:path";
import { imageManifest, installedImages, resolveAssets, verifyAssets } from "../../../release/asset/mod.ts";
import { SbxError } from "../../../base/error/mod.ts";
import type { Home } from "../../../base/home/mod.ts";
import { count } from "../../../base/text/mod.ts";
import { timeLimit } from "../../../base/time/mod.ts";
import { caFiles, openCa } from "../../../network/ca/mod.ts";
import { corpPlaces, findCorpPlace, loadCorp } from "../../../config/corp/mod.ts";
import { CredentialStore, findKeyring, storePath } from "../../../credential/mod.ts";
import { GUEST_VERSION } from "../../../machine/guest/wire/mod.ts";
import { bootAssets, guestVersion, listProfiles, missingObom } from "../../../config/profile/mod.ts";
import { readToml } from "../../../base/toml/mod.ts";
import { failed, failure, type HostProbe, note, ok, type Outcome } from "./check.ts";

/** Hashing an image takes longer than a look. */
const HASH_MS = timeLimit(20_000);
const INSTALL = "sbx image build code, or sbx update --assets --manifest URL";
/** Error code of a profile whose image has not been built yet, which is not a failure. */
const NOT_BUILT = "image.missing";

export const STATE_PROBES: HostProbe[] = [
  { id: "home", title: "home", run: checkHome },
  { id: "keyring", title: "keyring", run: checkKeyring },
  { id: "credentials", title: "credentials", run: checkCredentials },
  { id: "ca", title: "CA", run: checkCa },
  { id: "settings", title: "settings", run: checkSettings },
  { id: "corp", title: "corp", run: checkCorp },
  { id: "assets", title: "assets", run: checkAssets, within: HASH_MS },
  { id: "profiles", title: "profiles", run: checkProfiles },
];

/** Folders that only their user may enter. */
async function checkHome(home: Home): Promise<Outcome> {
  const folders = [
    home.dir,
    home.runDir,
    home.sessionsDir,
    join(home.dir, "credentials"),
    join(home.dir, "ca"),
  ];
  const open: string[] = [];
  for (const path of folders) {
    const info = await Deno.stat(path).catch((error) => error as Error);
    if (info instanceof Deno.errors.NotFound) continue;
    if (info instanceof Error) return failed(`${path} cannot be read`, `ls -ld ${path}`);
    if (!info.isDirectory) return failed(`${path} is not a folder`, `mv ${path} ${path}.old`);
    if (info.uid !== null && info.uid !== Deno.uid()) {
      return failed(
        `${path} belongs to another user`,
        `export SBX_HOME=~/.sbx-own, or sudo chown -R "$USER" ${path}`,
      );
    }
    if (((info.mode ?? 0) & 0o700) !== 0o700) {
      return failed(`this user may not use ${path}`, `chmod u+rwx ${path}`, () => restrict([path]));
    }
    if (path !== home.dir && ((info.mode ?? 0) & 0o077) !== 0) open.push(path);
    else if (((info.mode ?? 0) & 0o022) !== 0) open.push(path);
  }
  if (open.length > 0) {
    return failed(
      `${open.join(", ")} ${open.length > 1 ? "are" : "is"} open to others`,
      `chmod 700 ${open.join(" ")}`,
      () => restrict(open),
    );
  }
  const exists = await Deno.stat(home.dir).then(() => true, () => false);
  return exists ? ok(home.dir) : note(`${home.dir} is made by the first command that needs it`);
}

async function restrict(paths: string[]): Promise<string> {
  for (const path of paths) await Deno.chmod(path, 0o700);
  return `chmod 700 ${paths.join(" ")}`;
}

function checkKeyring(home: Home): Outcome {
  const place = new CredentialStore(storePath(home)).read().file?.key.in;
  const keyring = findKeyring();
  if (place === "keyring" && !keyring) {
    return failed(
      "the key of the credential store is in the OS keyring, which this session has not",
      "log in to the desktop session that added the credentials",
    );
  }
  return keyring
    ? ok("of this session")
    : note("no keyring in this session: the key of the credentials is a file with mode 0600");
}

async function checkCredentials(home: Home): Promise<Outcome> {
  const path = storePath(home);
  try {
    const store = new CredentialStore(path);
    const { file } = store.read();
    const entries = file?.entries ?? [];
    if (file) await store.open(file, entries.filter(({ sealed }) => sealed !== undefined));
    return ok(entries.length === 0 ? "none" : count(entries.length, "credential"));
  } catch (error) {
    const isOpen = error instanceof SbxError && error.code === "credential.store_insecure" &&
      await Deno.stat(path).then(({ uid }) => uid === Deno.uid(), () => false);
    const outcome = failure(error, `ls -l ${path}`);
    return isOpen
      ? {
        ...outcome,
        fix: async () => {
          await Deno.chmod(path, 0o600);
          return `chmod 600 ${path}`;
        },
      }
      : outcome;
  }
}

/** The CA is made with the first VM. Once it exists, only its user may read it. */
async function checkCa(home: Home): Promise<Outcome> {
  const { key, certificate } = caFiles(home);
  const files = await Promise.all([key, certificate].map((path) => Deno.lstat(path).catch(() => undefined)));
  if (!files.some(Boolean)) return note("made with the first VM");
  try {
    await openCa(home);
    return ok(certificate);
  } catch (error) {
    return failure(error, "sbx-admin ca rotate");
  }
}

async function checkSettings({ dir }: Home): Promise<Outcome> {
  const path = join(dir, "settings.toml");
  try {
    await readToml(path);
    return ok(path);
  } catch (error) {
    if (error instanceof SbxError && error.code === "toml.not_found") return ok("built-in values");
    return failure(error, "sbx settings list");
  }
}

async function checkCorp(): Promise<Outcome> {
  const { path, isRequired } = await findCorpPlace(corpPlaces());
  try {
    await loadCorp(path);
    return ok(path);
  } catch (error) {
    if (error instanceof SbxError && error.code === "corp.not_found" && !isRequired) return ok("none");
    return failure(error, "sbx corp");
  }
}

async function checkAssets(home: Home): Promise<Outcome> {
  try {
    const images = await installedImages(home);
    const assets = await resolveAssets(home, currentArch());
    await verifyAssets(assets);
    const { origin } = await imageManifest(home);
    const from = origin ? `, from ${origin.source}` : "";
    return ok(`release ${assets.version} matches its manifest${from}; images: ${images.join(", ")}`);
  } catch (error) {
    return failed(failure(error, INSTALL).detail, INSTALL);
  }
}

/** Most profiles whose errors one line has. */
const BROKEN_MAX = 3;

async function checkProfiles(home: Home): Promise<Outcome> {
  const broken: Outcome[] = [];
  /** images that cannot be looked at, or lack their OBOM, which may be of every profile */
  const noImage: Outcome[] = [];
  const ready: string[] = [];
  for (const listed of await listProfiles(home)) {
    if ("error" in listed) {
      broken.push(failure(listed.error, `sbx profile info ${listed.id}`));
      continue;
    }
    const gone = await missingObom(home, listed.profile);
    if (gone) noImage.push(failure(gone, INSTALL));
    await bootAssets(home, listed.profile, currentArch()).then(
      async () => {
        const version = await guestVersion(home, listed.profile);
        if (version === undefined || version === GUEST_VERSION) return ready.push(listed.id);
        noImage.push(failed(
          `the image of ${listed.id} has guest programs of version ${version}, which do not boot: this sbx needs ${GUEST_VERSION}`,
          `sbx image build ${listed.id}, or sbx update --assets where it came from a server`,
        ));
      },
      (error) => {
        if (error instanceof SbxError && (error.code === NOT_BUILT || error.code === "assets.missing")) {
          return;
        }
        noImage.push(failure(error, INSTALL));
      },
    );
  }
  const [first, ...others] = [...broken, ...noImage];
  if (first) {
    const details = new Set([first, ...others].map(({ detail }) => detail));
    return { ...first, detail: [...details].slice(0, BROKEN_MAX).join("; ") };
  }
  return ready.length > 0
    ? ok(`ready to boot: ${ready.join(", ")}`)
    : failed("no profile has an image to boot", INSTALL);
}
