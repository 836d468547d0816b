/** Text that comes into a terminal without keys: emoji, dictation, accents, corrections. */

/** Kinds of input that bring a text of their own. */
const KINDS = new Set(["insertText", "insertReplacementText", "insertFromDictation"]);
/** Code of a key whose text an input method takes; xterm reads the field itself then. */
const PROCESSED = 229;

/**
 * Passes such text on. xterm leaves it out while it supports screen readers, since it cannot know it from
 * text that a key brought: keys are followed here.
 *
 * @param field of xterm, for its input
 * @param type gets the text
 */
export function followTyped(field: HTMLTextAreaElement, type: (text: string) => void): void {
  let isOfKey = false;
  let isComposing = false;
  field.addEventListener("keydown", ({ keyCode }) => isOfKey = keyCode === PROCESSED, { capture: true });
  field.addEventListener("keypress", () => isOfKey = true, { capture: true });
  // Typed text is sent: an input method would take it for a part of its text.
  const empty = () => isComposing || (field.value = "");
  field.addEventListener("keyup", () => {
    isOfKey = false;
    empty();
  }, { capture: true });
  field.addEventListener("compositionstart", () => isComposing = true);
  // Some browsers insert the composed text once more, after its end; xterm has read it.
  field.addEventListener("compositionend", () => setTimeout(() => isComposing = false));
  field.addEventListener("input", (event) => {
    const { inputType, data, dataTransfer } = event as InputEvent;
    const text = data ?? dataTransfer?.getData("text/plain");
    if (!text || isOfKey || isComposing || !KINDS.has(inputType)) return;
    type(text);
    empty();
  });
}
