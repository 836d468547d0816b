/** Keys that sign commits, from a file, an ssh-agent or gpg. */
import { SbxError } from "../../../lib/base/error/mod.ts";
import type { Arguments } from "../../../lib/base/args/mod.ts";
import { resolve } from "node:path";
import { withPassphrase } from "./secret.ts";

/** Most `bytes` of a key's file. */
const FILE_MAX = 64 * 1024;

/** Options of `sbx credentials add signing`. */
export const SIGNING_OPTIONS = [
  {
    name: "key",
    value: "FILE",
    about: "with ssh and signing: private SSH key, which is kept sealed; with ssh and --agent the public one",
  },
  { name: "agent", about: "with ssh and signing: your ssh-agent has the key, and signs with it" },
  { name: "public", value: "FILE", about: "with signing and --agent: the public key" },
  { name: "socket", value: "PATH", about: "with signing and --agent: its socket; default $SSH_AUTH_SOCK" },
  { name: "gpg", value: "KEYID", about: "with signing: gpg of this machine signs, with its agent" },
  {
    name: "email",
    value: "ADDRESS",
    about: "with signing: address that the key signs for; default: the one in the key (repeatable)",
    many: true,
  },
];

/** Parts of a key in a request. */
interface SigningRequest {
  secret?: string;
  signing: { public?: string; agent?: string; gpg?: string; gpg_home?: string; emails?: string[] };
}

/** Options that an SSH key has too. */
const SHARED = ["key", "agent"];

/** True where one of the options of signing is given. @param isSsh whether it is for an SSH key */
export function namesSigning(args: Arguments, isSsh: boolean): boolean {
  return SIGNING_OPTIONS.filter(({ name }) => !isSsh || !SHARED.includes(name))
    .some(({ name, many }) => many ? args.list(name).length > 0 : args.has(name));
}

/** @throws {SbxError} `usage.invalid`, `sign.key.invalid`, `credential.invalid` */
export async function readSigning(args: Arguments): Promise<SigningRequest> {
  const [key, gpg, file] = [args.text("key"), args.text("gpg"), args.text("public")];
  const isAgent = args.has("agent");
  const ways = [key !== undefined, gpg !== undefined, isAgent].filter(Boolean).length;
  if (ways !== 1 || (file !== undefined || args.has("socket")) && !isAgent) {
    throw new SbxError("usage.invalid", "a key that signs needs one of --key, --agent and --gpg", {
      hint: "sbx credentials add signing --key ~/.ssh/id_ed25519; --public and --socket are for --agent",
    });
  }
  const emails = args.list("email");
  if (gpg !== undefined) {
    const home = Deno.env.get("GNUPGHOME");
    return {
      signing: { gpg, ...(home && { gpg_home: resolve(home) }), ...(emails.length > 0 && { emails }) },
    };
  }
  const { readSigningFile } = await import("../../../lib/sign/mod.ts");
  if (key !== undefined) {
    const text = await readKey(key);
    const { secret, public: { line }, comment } = await withPassphrase(
      key,
      (passphrase) => readSigningFile(text, passphrase),
    );
    return { secret, ...known(comment, emails, { public: line }) };
  }
  if (file === undefined) {
    throw new SbxError("usage.invalid", "--agent needs the public key of the one that signs", {
      hint: "sbx credentials add signing --agent --public ~/.ssh/id_ed25519.pub",
    });
  }
  const socket = args.text("socket") ?? Deno.env.get("SSH_AUTH_SOCK");
  if (!socket) {
    throw new SbxError("credential.invalid", "there is no ssh-agent: SSH_AUTH_SOCK is not set", {
      hint: "start one with ssh-agent, or name its socket: --socket PATH",
    });
  }
  const [type, base64, ...words] = (await readKey(file)).trim().split(/\s+/);
  return known(words.join(" "), emails, { public: `${type} ${base64 ?? ""}`, agent: resolve(socket) });
}

/** A comment that is an address is whom the key is for. */
function known(comment: string, emails: string[], signing: SigningRequest["signing"]): SigningRequest {
  const isAddress = /^[^\s<>",*?!]+@[^\s<>",*?!]+$/.test(comment);
  const all = emails.length > 0 ? emails : isAddress ? [comment] : [];
  return { signing: { ...signing, ...(all.length > 0 && { emails: all }) } };
}

async function readKey(path: string): Promise<string> {
  try {
    using file = await Deno.open(path);
    const { size, isFile } = await file.stat();
    if (isFile && size <= FILE_MAX) return await Deno.readTextFile(path);
  } catch (cause) {
    throw new SbxError("credential.invalid", `cannot read the key ${path}`, { cause, hint: "name its file" });
  }
  throw new SbxError("credential.invalid", `${path} is not a file of a key`, { hint: "name its file" });
}
