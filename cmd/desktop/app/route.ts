import { computed, type Signal, signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

/** The address after its `#`: `#/vm/demo/timeline?decision=block`. */
const address = signal(location.hash);

/** Words of the address: `#/vm/demo/terminal` is `["vm", "demo", "terminal"]`. */
export const route = computed<string[]>(() => pathOf().split("/").map(decode).filter((word) => word !== ""));

/** Choices on the page, as the address has them: filters, an event. */
export const query = computed<Record<string, string>>(() =>
  Object.fromEntries(new URLSearchParams(address.value.split("?")[1] ?? ""))
);

function pathOf(): string {
  return address.value.replace(/^#\/?/, "").split("?")[0];
}

function decode(word: string): string {
  try {
    return decodeURIComponent(word);
  } catch {
    return "";
  }
}

export function followAddress(): void {
  addEventListener("hashchange", () => address.value = location.hash);
  address.value = location.hash;
}

/** Views of a VM, as its address names them: its record, then its work and its machine. */
export const VM_VIEWS = [
  "timeline",
  "programs",
  "requests",
  "calls",
  "findings",
  "changes",
  "terminal",
  "files",
  "ports",
  "logs",
] as const;

/** The address of a page. */
export function hrefOf(...words: string[]): string {
  return `#/${words.map(encodeURIComponent).join("/")}`;
}

export function go(...words: string[]): void {
  location.hash = hrefOf(...words);
}

/** Puts choices into the address, in place of the entry of the history; empty ones leave it. */
export function setQuery(part: Record<string, string | undefined>): void {
  const chosen = Object.entries({ ...query.peek(), ...part }).filter((pair): pair is [string, string] =>
    !!pair[1]
  );
  const search = new URLSearchParams(chosen).toString();
  const path = `#/${pathOf()}`;
  history.replaceState(null, "", search === "" ? path : `${path}?${search}`);
  address.value = location.hash;
}

/** A choice that the address has too: a link to it, a reload and a return find it again. */
export function useAddressed(name: string): Signal<string | undefined> {
  const chosen = useSignal(query.peek()[name]);
  useEffect(() => {
    const stops = [
      chosen.subscribe((value) => value !== query.peek()[name] && setQuery({ [name]: value })),
      query.subscribe((all) => chosen.value = all[name]),
    ];
    return () => stops.forEach((stop) => stop());
  }, []);
  return chosen;
}
