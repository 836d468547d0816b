/** A choice of one of a few, side by side. */

interface SegmentsProps<T> {
  label: string;
  choices: readonly T[];
  chosen: string | number;
  textOf(choice: T): string;
  onChoose(choice: T): void;
}

export function Segments<T extends string | number>(
  { label, choices, chosen, textOf, onChoose }: SegmentsProps<T>,
) {
  return (
    <div class="segments" role="group" aria-label={label}>
      {choices.map((each) => (
        <button
          key={each}
          type="button"
          aria-pressed={each === chosen}
          onClick={() => onChoose(each)}
        >
          {textOf(each)}
        </button>
      ))}
    </div>
  );
}
