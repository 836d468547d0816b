import { signal } from "@preact/signals";

/** Words of the address: `#/vm/demo/terminal` is `["vm", "demo", "terminal"]`. */
export const route = signal<string[]>(read());

function read(): string[] {
  return location.hash.replace(/^#\/?/, "").split("/").map(decode).filter((word) => word !== "");
}

function decode(word: string): string {
  try {
    return decodeURIComponent(word);
  } catch {
    return "";
  }
}

export function followAddress(): void {
  addEventListener("hashchange", () => route.value = read());
  route.value = read();
}

export function hrefOf(...words: string[]): string {
  return `#/${words.map(encodeURIComponent).join("/")}`;
}

export function go(...words: string[]): void {
  location.hash = hrefOf(...words);
}
