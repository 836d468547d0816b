/** Search fields: one narrows the rows of a page at each letter, one asks once its words are written. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

/** Narrows the rows of a page at each letter. @param value the words that are looked for */
export function FilterField(
  { label, value, onFilter }: { label: string; value: string; onFilter: (words: string) => void },
) {
  return (
    <input
      type="search"
      aria-label={label}
      placeholder={label}
      value={value}
      onInput={({ currentTarget }) => onFilter(currentTarget.value)}
    />
  );
}

interface Props {
  label: string;
  /** the words that are looked for */
  value: string;
  /** its name in a form, which submits it */
  name?: string;
  class?: string;
  onSearch?: (words: string) => void;
}

/**
 * Words that are looked for with Enter, or when the field is left. Keeps the words of a person, however often
 * the page is drawn meanwhile.
 */
export function SearchField({ label, value, name, class: kind, onSearch }: Props) {
  const written = useSignal(value);
  // An address that changed, such as by Back, brings its own words.
  useEffect(() => void (written.value = value), [value]);
  return (
    <input
      type="search"
      name={name}
      class={kind}
      aria-label={label}
      placeholder={label}
      maxLength={1024}
      value={written.value}
      onInput={({ currentTarget }) => written.value = currentTarget.value}
      onChange={({ currentTarget }) => onSearch?.(currentTarget.value)}
    />
  );
}
