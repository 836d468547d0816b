/** One end of a connection. */
export interface Endpoint {
  hostname: string;
  port: number;
}

/** An address of 4 or 16 bytes as text; IPv6 with all of its groups. */
export function textOf(bytes: Uint8Array): string {
  if (bytes.length === 4) return bytes.join(".");
  const groups = Array.from({ length: 8 }, (_, i) => (bytes[i * 2] << 8 | bytes[i * 2 + 1]).toString(16));
  return groups.join(":");
}

/** The bytes of an address as Deno and {@linkcode textOf} write it. */
export function bytesOf(hostname: string): number[] {
  if (!hostname.includes(":")) return hostname.split(".").map(Number);
  const [head, tail] = hostname.split("::").map((half) => half === "" ? [] : half.split(":"));
  const groups = tail ? [...head, ...Array(8 - head.length - tail.length).fill("0"), ...tail] : head;
  return groups.flatMap((group) => [parseInt(group, 16) >> 8, parseInt(group, 16) & 255]);
}
