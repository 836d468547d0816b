import type { ComponentChildren } from "preact";

/** A table with its name and its head; the first cell of a row is its head. */
export function Table(
  { label, head, children }: { label: string; head: string[]; children: ComponentChildren },
) {
  return (
    <table aria-label={label}>
      <thead>
        <tr>{head.map((name) => <th key={name} scope="col">{name}</th>)}</tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  );
}
