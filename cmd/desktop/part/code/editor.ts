/** An editor of match expressions: CodeMirror, loaded when a rule is opened. */
import {
  acceptCompletion,
  autocompletion,
  type Completion,
  type CompletionContext,
  completionKeymap,
  type CompletionResult,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { type Diagnostic, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import { EditorView, keymap } from "@codemirror/view";
import { catalogue } from "../../../../lib/event/mod.ts";

/** A remark on a part of the text. */
export interface Mark {
  severity: "error" | "warning" | "note";
  message: string;
  /** offset of the word; absent: the whole text */
  at?: number;
}

export interface CodeEditor {
  mark(marks: readonly Mark[]): void;
  /** Replaces the whole text, as its author could take back. */
  write(value: string): void;
  close(): void;
}

interface Options {
  value: string;
  label: string;
  isReadOnly: boolean;
  onChange: (value: string) => void;
}

/** Colours of the page; its properties reach into the shadow of the editor. */
const THEME = EditorView.theme({
  "&": { border: "1px solid var(--line)", borderRadius: "5px", background: "var(--back)" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "2px" },
  ".cm-content": {
    fontFamily: "ui-monospace, monospace",
    caretColor: "var(--text)",
    minHeight: "5rem",
    whiteSpace: "pre-wrap",
  },
  ".cm-tooltip": { background: "var(--raised)", color: "var(--text)", border: "1px solid var(--line)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": {
    background: "var(--accent)",
    color: "var(--on-accent)",
  },
  // CodeMirror's own marks are images, which the page's policy forbids.
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--bad)" },
  ".cm-lintRange-warning": { backgroundImage: "none", textDecoration: "underline wavy var(--warn)" },
  ".cm-completionDetail": { color: "inherit" },
});

/**
 * Opens an editor in `host`. It lives in a shadow root: there, its styles are constructed sheets, and the
 * page's policy needs no exception for style elements.
 */
export function openEditor(host: HTMLElement, { value, label, isReadOnly, onChange }: Options): CodeEditor {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: value,
      extensions: [
        THEME,
        history(),
        EditorView.lineWrapping,
        EditorState.readOnly.of(isReadOnly),
        EditorView.contentAttributes.of({
          "aria-label": label,
          "aria-readonly": String(isReadOnly),
          spellcheck: "false",
        }),
        autocompletion({ override: [completeMatch], icons: false }),
        keymap.of([
          { key: "Tab", run: acceptCompletion },
          ...completionKeymap,
          ...defaultKeymap,
          ...historyKeymap,
          ...lintKeymap,
        ]),
        EditorView.domEventHandlers({ beforeinput: replaceSelected }),
        EditorView.updateListener.of(({ docChanged, state }) => docChanged && onChange(state.doc.toString())),
      ],
    }),
  });
  return {
    mark: (marks) =>
      view.dispatch(setDiagnostics(view.state, marks.map((mark) => diagnosticOf(view.state, mark)))),
    write: (value) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: value } }),
    close: () => view.destroy(),
  };
}

/** Replaces the selection. Browsers keep a mark's looks by an inline style, which the policy forbids. */
function replaceSelected(event: InputEvent, view: EditorView): boolean {
  const { state } = view;
  if (state.readOnly || event.inputType !== "insertText" || event.data === null) return false;
  if (state.selection.main.empty) return false;
  event.preventDefault();
  view.dispatch(state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
  return true;
}

/** A mark of a word that was changed since stays within the text. */
function diagnosticOf(state: EditorState, { at, severity: said, message }: Mark): Diagnostic {
  const severity = said === "note" ? "info" : said;
  const text = state.doc.toString();
  if (at === undefined || at > text.length) return { from: 0, to: text.length, severity, message };
  const word = /^[\w.]+/.exec(text.slice(at))?.[0] ?? text.slice(at, at + 1);
  return { from: at, to: at + word.length, severity, message };
}

// Completion of match expressions: fields of events, their values, and the words of CEL.

const FIELDS: Completion[] = [...catalogue].map(([label, { cel, description }]) => ({
  label,
  type: "property",
  detail: cel,
  info: description,
}));

/** Words of CEL that rules use, with the text inserted for each. */
const WORDS: Completion[] = [
  ["has", "has("],
  ["contains", "contains("],
  ["startsWith", "startsWith("],
  ["endsWith", "endsWith("],
  ["matches", "matches("],
  ["size", "size("],
  ["exists", "exists("],
  ["all", "all("],
  ["in", "in "],
  ["true", "true"],
  ["false", "false"],
].map(([label, apply]) => ({ label, apply, type: "keyword" }));

/** A path compared with a text that is being written. */
const VALUE = /([\w.]+)\s*(?:==|!=)\s*(["'])([^"']*)$/;

/** Completions at the cursor of a match expression. */
function completeMatch(context: CompletionContext): CompletionResult | null {
  const before = context.state.sliceDoc(0, context.pos);
  const [, path, , written] = VALUE.exec(before) ?? [];
  if (path !== undefined) {
    const values = catalogue.get(path)?.values;
    if (!values) return null;
    const options = values.map((label) => ({ label, type: "enum" }));
    return { from: context.pos - written.length, options, validFor: /^[\w.-]*$/ };
  }
  const word = /[\w.]*$/.exec(before)![0];
  if (word === "" && !context.explicit) return null;
  return { from: context.pos - word.length, options: [...FIELDS, ...WORDS], validFor: /^[\w.]*$/ };
}
