import { useSignal } from "@preact/signals";
import { act, settings, textOf } from "../../store/store.ts";
import { text } from "../../text/en.ts";
import {
  type Action,
  discard,
  type Group,
  type Leaf,
  type Node,
  refused,
  save,
  search,
  sendNow,
  staged,
} from "./tree.ts";
import { api, type Explanation } from "../../api/routes.ts";
import type { ComponentType } from "preact";
import {
  Chips,
  FileEditor,
  NumberInput,
  PasswordInput,
  Select,
  Slider,
  TextInput,
  Toggle,
} from "./widgets.tsx";
import { useAddressed } from "../../app/route.ts";
import { useEffect } from "preact/hooks";

/** The settings, drawn from `GET /settings/info` alone: this page knows no setting. */
export function SettingsPage() {
  const words = text.settings;
  const sought = useAddressed("q");
  if (settings.value === undefined) return <p>{text.common.loading}</p>;
  const { tree, issues } = settings.value;
  const found = search(tree, sought.value ?? "");
  const count = Object.keys(staged.value).length;
  return (
    <>
      <div class="head">
        <h1>{text.page.settings}</h1>
        <input
          type="search"
          aria-label={words.search}
          placeholder={words.search}
          value={sought.value ?? ""}
          onInput={({ currentTarget }) => sought.value = currentTarget.value}
        />
      </div>
      {issues.length > 0 && (
        <section aria-label={words.issues}>
          <h2>{words.issues}</h2>
          <ul class="issues">
            {issues.map(({ id, severity, message }) => (
              <li key={id + message} class={severity}>{`${id}: ${message}`}</li>
            ))}
          </ul>
        </section>
      )}
      {found.length === 0 ? <p class="empty">{words.nothing}</p> : <Nodes nodes={found} depth={2} />}
      {count > 0 && (
        <div class="batch">
          <button type="button" class="main" onClick={save}>{words.save(count)}</button>
          <button type="button" onClick={discard}>{words.discard}</button>
        </div>
      )}
    </>
  );
}

/** Nodes by their kind. */
function Nodes({ nodes, depth }: { nodes: Node[]; depth: number }) {
  return (
    <>
      {nodes.map((node) => {
        if (node.kind === "group") return <GroupBox key={`group ${node.key}`} group={node} depth={depth} />;
        if (node.kind === "leaf") return <LeafRow key={node.id} leaf={node} />;
        return <ActionRow key={`action ${node.key}`} action={node} />;
      })}
    </>
  );
}

function GroupBox({ group, depth }: { group: Group; depth: number }) {
  const Heading = depth <= 3 ? `h${depth}` as "h2" : "h4";
  return (
    <details class="group" open={!group.collapsed}>
      <summary>
        <Heading>{group.name}</Heading>
      </summary>
      {group.description && <p class="hint">{group.description}</p>}
      <Nodes nodes={group.children} depth={depth + 1} />
    </details>
  );
}

/** A button of the tree, named by its kind. */
function ActionRow({ action }: { action: Action }) {
  const run = () => act(() => api.checkUpdate(), text.settings.checked);
  if (action.action !== "check_update") return null;
  return (
    <div class="setting">
      <div>
        <strong>{action.name}</strong>
        {action.description && <p class="hint">{action.description}</p>}
      </div>
      <div>
        <button type="button" onClick={run}>{text.settings.action[action.action]}</button>
      </div>
    </div>
  );
}

/** One setting: its words, its control, and who sets it. */
function LeafRow({ leaf }: { leaf: Leaf }) {
  const words = text.settings;
  const isStaged = leaf.id in staged.value;
  const problems = refused.value[leaf.id];
  return (
    <div class={leaf.enabled ? "setting" : "setting off"} data-id={leaf.id}>
      <div>
        <strong id={`${leaf.id}-name`}>{leaf.name}</strong>
        {leaf.description && <p class="hint" id={`${leaf.id}-about`}>{leaf.description}</p>}
        {leaf.corp_locked && <Lock id={leaf.id} />}
        {leaf.source === "user" && (
          <p class="hint">
            {words.fromUser}{" "}
            <button type="button" aria-label={words.resetOf(leaf.name)} onClick={() => sendNow(leaf, null)}>
              {words.reset}
            </button>
          </p>
        )}
      </div>
      <div class={isStaged ? "staged" : undefined}>
        <Widget leaf={leaf} />
        {problems && (
          <div class="problems" id={`${leaf.id}-problem`} role="alert">
            {problems.map((problem) => <p key={problem} class="error">{sentenceOf(problem)}</p>)}
          </div>
        )}
      </div>
      <Explain leaf={leaf} />
    </div>
  );
}

/** A problem as a sentence of its own: an answer begins it after the setting's name. */
const sentenceOf = (problem: string) => problem[0].toUpperCase() + problem.slice(1);

/** Who locks a setting, and where that is written. */
function Lock({ id }: { id: string }) {
  const place = useSignal<string | undefined>(undefined);
  const words = text.settings;
  useEffect(() => {
    // Without its place the lock is a lock all the same.
    api.explainSetting(id).then(({ lock }) => place.value = lock, () => {});
  }, [id, settings.value]);
  return <p class="lock">{place.value === undefined ? words.locked : words.lockedAt(place.value)}</p>;
}

const WIDGETS: Record<string, ComponentType<{ leaf: Leaf }>> = {
  toggle: Toggle,
  text_input: TextInput,
  number_input: NumberInput,
  password_input: PasswordInput,
  select: Select,
  file_editor: FileEditor,
  string_chips: Chips,
  domain_chips: Chips,
  slider: Slider,
};

/** Controls of types whose metadata names none. */
const BY_TYPE: Record<Leaf["setting_type"], ComponentType<{ leaf: Leaf }>> = {
  text: TextInput,
  number: NumberInput,
  bool: Toggle,
  password: PasswordInput,
  apikey: PasswordInput,
  file: FileEditor,
  string_list: Chips,
  int_list: Chips,
  float_list: Chips,
};

/** The control of a setting, by its widget, or else by its type. */
function Widget({ leaf }: { leaf: Leaf }) {
  const { widget, choices } = leaf.metadata;
  const Control = WIDGETS[widget ?? (leaf.setting_type === "text" && choices.length > 0 ? "select" : "")] ??
    BY_TYPE[leaf.setting_type];
  return <Control leaf={leaf} />;
}

/** Why a setting has its value: each layer with its file and line, the winner, and what switches it. */
function Explain({ leaf }: { leaf: Leaf }) {
  const isOpen = useSignal(false);
  const words = text.settings;
  const id = `${leaf.id}-why`;
  return (
    <div class="explain">
      <button
        type="button"
        class="small"
        aria-expanded={isOpen.value}
        aria-controls={id}
        aria-label={words.explainOf(leaf.name)}
        onClick={() => isOpen.value = !isOpen.value}
      >
        {words.explain}
      </button>
      <div id={id} class="explanation">{isOpen.value && <Layers id={leaf.id} />}</div>
    </div>
  );
}

function Layers({ id }: { id: string }) {
  const answer = useSignal<Explanation | undefined>(undefined);
  const error = useSignal<string | undefined>(undefined);
  // An answer from before another change would explain an outdated value.
  useEffect(() => {
    api.explainSetting(id).then((found) => answer.value = found, (failure) => error.value = textOf(failure));
  }, [id, settings.value]);
  const words = text.settings;
  if (error.value) return <p class="error" role="alert">{error.value}</p>;
  if (answer.value === undefined) return <p role="status">{text.common.loading}</p>;
  const { form, layers, lock, enabled_by } = answer.value;
  return (
    <>
      <p class="hint">{words.form(id, form)}</p>
      <table aria-label={words.layers}>
        <thead>
          <tr>
            <th scope="col">{words.layer}</th>
            <th scope="col">{words.value}</th>
            <th scope="col">{words.place}</th>
          </tr>
        </thead>
        <tbody>
          {layers.map(({ layer, value, file, line, wins }) => (
            <tr key={layer} class={wins ? "wins" : undefined}>
              <th scope="row">
                {words.layerName[layer]} {wins && <span class="hint">{words.wins}</span>}
              </th>
              <td>{value === undefined ? text.common.none : <code>{JSON.stringify(value)}</code>}</td>
              <td>{placeOf(file, line)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {lock && <p class="lock">{words.lockedAt(lock)}</p>}
      {enabled_by.map((each) => (
        <p key={each.id} class="hint">
          {words.switchedBy(each.id, each.enabled, placeOf(each.file, each.line))}
        </p>
      ))}
    </>
  );
}

function placeOf(file: string | undefined, line: number | undefined): string {
  if (file === undefined) return text.common.none;
  return line === undefined ? file : `${file}:${line}`;
}
