/** A field whose words are looked for once they are written: with Enter, or when it is left. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

interface Props {
  label: string;
  /** the words that are looked for */
  value: string;
  /** its name in a form, which submits it */
  name?: string;
  class?: string;
  onSearch?: (words: string) => void;
}

/** Keeps the words of a person, however often the page is drawn meanwhile. */
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
