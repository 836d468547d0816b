/** Writes an address for a message, without the user and password that somebody put into it. */
export function shownAddress(text: string): string {
  return text.replace(/\/\/[^/?#]*@/, "//…@");
}
