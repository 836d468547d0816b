/** Answers of `history.known`: contacts of the profile's other VMs on this machine, and corp's list. */
import {
  contactsPath,
  type ContactTable,
  emptyContacts,
  type KnownHosts,
  parseContacts,
} from "../policy/mod.ts";
import type { Contract } from "./files/contract.ts";

/** `ms` between looks at the file of a profile, for hosts that it did not have. */
const LOOK_MS = 1000;

/** @param dir of the home */
export function knownHostsOf(
  dir: string,
  profileId: string,
  { corp }: Pick<Contract, "corp">,
  now = () => performance.now(),
): KnownHosts {
  const profile = new ContactFile(contactsPath(dir, profileId), now);
  const listed = corp.known_hosts && new Set(corp.known_hosts);
  return {
    has(scope, field, host) {
      if (scope === "profile") return profile.has(field as keyof ContactTable, host);
      if (!listed) throw new Error("corp.toml has no known_hosts");
      return listed.has(host) || domainsOf(host).some((domain) => listed.has(`*.${domain}`));
    },
  };
}

/** A domain and everything below it: `a.b.example` is in `a.b.example`, `b.example` and `example`. */
function domainsOf(host: string): string[] {
  const parts = host.split(".");
  return parts.map((_, at) => parts.slice(at).join("."));
}

/** The file of a profile, read again when a host is not in it. */
class ContactFile {
  readonly #path: string;
  readonly #now: () => number;
  #table?: ContactTable;
  #looked = -Infinity;
  #version = "";

  constructor(path: string, now: () => number) {
    this.#path = path;
    this.#now = now;
  }

  /** @throws {Error} it cannot be read */
  has(field: keyof ContactTable, host: string): boolean {
    if (this.#table?.[field].has(host)) return true;
    if (!this.#table || this.#now() - this.#looked >= LOOK_MS) this.#look();
    return this.#table![field].has(host);
  }

  /** Reads it again where it changed. It cannot be read: the answers of before do not count either. */
  #look(): void {
    this.#looked = this.#now();
    try {
      const { mtime, size, ino } = Deno.statSync(this.#path);
      const version = `${mtime?.getTime()} ${size} ${ino}`;
      if (this.#table && version === this.#version) return;
      this.#table = undefined;
      this.#table = parseContacts(Deno.readTextFileSync(this.#path));
      this.#version = version;
    } catch (error) {
      this.#table = undefined;
      if (!(error instanceof Deno.errors.NotFound)) throw error;
      this.#table = emptyContacts();
      this.#version = "";
    }
  }
}
