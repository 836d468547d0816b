/** A Markdown table; a bar in a cell would end it. */
export function table(header: string[], rows: string[][]): string {
  const line = (cells: string[]) => `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |\n`;
  return line(header) + line(header.map(() => "---")) + rows.map(line).join("");
}
