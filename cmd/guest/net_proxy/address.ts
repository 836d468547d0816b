/** Address and port of one end of a connection. */
export interface SocketAddress {
  hostname: string;
  port: number;
}

/** Formats an address of 4 or 16 bytes; IPv6 with all of its groups. */
export function formatAddress(bytes: Uint8Array): string {
  if (bytes.length === 4) return bytes.join(".");
  const groups = Array.from({ length: 8 }, (_, i) => (bytes[i * 2] << 8 | bytes[i * 2 + 1]).toString(16));
  return groups.join(":");
}

/** Encodes an address in the format of Deno or {@linkcode formatAddress}. */
export function encodeAddress(hostname: string): number[] {
  if (!hostname.includes(":")) return hostname.split(".").map(Number);
  const [head, tail] = hostname.split("::").map((half) => half === "" ? [] : half.split(":"));
  const groups = tail ? [...head, ...Array(8 - head.length - tail.length).fill("0"), ...tail] : head;
  return groups.flatMap((group) => [parseInt(group, 16) >> 8, parseInt(group, 16) & 255]);
}
