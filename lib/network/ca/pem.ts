/** Encodes DER as PEM (RFC 7468). */
export function toPem(der: ArrayBuffer | Uint8Array<ArrayBuffer>, label: string): string {
  const text = new Uint8Array(der).toBase64().replace(/.{64}(?!$)/g, "$&\n");
  return `-----BEGIN ${label}-----\n${text}\n-----END ${label}-----\n`;
}

/** Decodes a PEM text with exactly one block, of this label; `undefined` for any other or a damaged text. */
export function fromPem(pem: string, label: string): Uint8Array<ArrayBuffer> | undefined {
  const blocks = [...pem.matchAll(/-----BEGIN ([A-Z ]+)-----\s([A-Za-z0-9+/=\s]+)-----END \1-----/g)];
  if (blocks.length !== 1 || blocks[0][1] !== label) return undefined;
  try {
    return Uint8Array.fromBase64(blocks[0][2]);
  } catch {
    return undefined;
  }
}
