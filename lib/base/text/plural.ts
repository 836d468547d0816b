/** Formats a count with its noun: `1 VM`, `2 VMs`. @param plural irregular plural form */
export function count(number: number, noun: string, plural = `${noun}s`): string {
  return `${number} ${number === 1 ? noun : plural}`;
}
