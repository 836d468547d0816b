/** A ClientHello of TLS 1.2 in one record. @param name server name */
export function helloOf(name?: string): Uint8Array {
  const text = [...new TextEncoder().encode(name ?? "")];
  const sni = [0, 0, 0, text.length + 5, 0, text.length + 3, 0, 0, text.length, ...text];
  const more = name === undefined ? [] : [0, sni.length, ...sni];
  const body = [3, 3, ...Array(32).fill(7), 0, 0, 2, 0x13, 1, 1, 0, ...more];
  const message = [1, 0, 0, body.length, ...body];
  return Uint8Array.from([22, 3, 1, 0, message.length, ...message]);
}
