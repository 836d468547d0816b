/**
 * Hosts that the VMs of a profile have contacted before (docs/design/contracts/05-policy.md §5, "Known
 * hosts"): one file a profile, which the service writes and the VMs' processes read.
 */
import { type Event, familyOf, valueAt } from "../../event/mod.ts";
import { isObject } from "../../base/object/mod.ts";
import { join } from "node:path";

/** Fields that name a host which an event contacts or asks for. */
export const CONTACT_FIELDS = ["http.request.host", "dns.request.qname"] as const;
export type ContactField = typeof CONTACT_FIELDS[number];

/** Most hosts of one field that a profile's file has; the ones contacted longest ago are left out. */
export const CONTACTS_MAX = 20_000;
/** `ms` for which a host is known after its last contact. */
export const CONTACT_AGE_MAX_MS = 90 * 24 * 60 * 60_000;
/** Longest name that is kept; a longer one is never known. */
const HOST_MAX = 253;
const SCHEMA = "sbx.contacts.v1";

/** Hosts with the unix `ms` of their last contact, by field. */
export type ContactTable = Record<ContactField, Map<string, number>>;

export function emptyContacts(): ContactTable {
  return { "http.request.host": new Map(), "dns.request.qname": new Map() };
}

/** @param dir of the home */
export function contactsPath(dir: string, profileId: string): string {
  return join(dir, "contacts", `${profileId}.json`);
}

/** The host that an event contacts. */
export function contactOf(event: Event): { field: ContactField; host: string } | undefined {
  const field = CONTACT_FIELDS.find((path) => path.startsWith(`${familyOf(event.common.event_type)}.`));
  const host = field && valueAt(event, field);
  return field && typeof host === "string" && host.length <= HOST_MAX ? { field, host } : undefined;
}

/** @throws {Error} it is no such file */
export function parseContacts(text: string): ContactTable {
  const value: unknown = JSON.parse(text);
  if (!isObject(value) || value.schema !== SCHEMA || !isObject(value.hosts)) {
    throw new Error("it is not a list of contacts");
  }
  const table = emptyContacts();
  for (const field of CONTACT_FIELDS) {
    const hosts = value.hosts[field] ?? {};
    if (!isObject(hosts)) throw new Error("it is not a list of contacts");
    for (const [host, at] of Object.entries(hosts)) if (typeof at === "number") table[field].set(host, at);
  }
  return table;
}

/** Text of the file. Hosts that are too many or too old leave the table. */
export function formatContacts(table: ContactTable, now: number): string {
  const hosts = Object.fromEntries(CONTACT_FIELDS.map((field) => {
    const all = [...table[field]].sort(([, a], [, b]) => b - a);
    const kept = all.filter(([, at], place) => place < CONTACTS_MAX && now - at < CONTACT_AGE_MAX_MS);
    for (const [host] of all.slice(kept.length)) table[field].delete(host);
    return [field, Object.fromEntries(kept)];
  }));
  return JSON.stringify({ schema: SCHEMA, hosts }) + "\n";
}
