/** Closes an object that may be closed already, or not open yet. */
export function closeQuietly(closable: { close(): unknown } | undefined): void {
  try {
    closable?.close();
  } catch {
    // closed already
  }
}
