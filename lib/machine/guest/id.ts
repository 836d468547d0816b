/** Length of an id, in `bytes`: other programs of the guest cannot guess it. */
const ID_BYTES = 16;

export function newId(): string {
  return crypto.getRandomValues(new Uint8Array(ID_BYTES)).toHex();
}
