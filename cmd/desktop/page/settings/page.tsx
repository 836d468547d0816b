import { useSignal } from "@preact/signals";
import { act, settings, textOf } from "../../store/store.ts";
import { FilterField } from "../../part/search.tsx";
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
import { api, type SettingExplanation, type Settings } from "../../api/routes.ts";
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
import { hrefOf, useAddressed } from "../../app/route.ts";
import { Icon } from "../../part/icon.tsx";
import { useEffect } from "preact/hooks";

/** The choice of the address that shows changed settings alone. */
const CHANGED = "changed";

/** The settings, drawn from `GET /settings/info` alone: this page knows no setting. */
export function SettingsPage() {
  const words = text.settings;
  const [sought, show, section] = [useAddressed("q"), useAddressed("show"), useAddressed("section")];
  const isRead = settings.value !== undefined;
  // An address with a section begins there.
  useEffect(() => {
    if (isRead && section.value) showSection(section.value);
  }, [isRead, section.value]);
  if (settings.value === undefined) return <p role="status">{text.common.loading}</p>;
  const { tree, issues } = settings.value;
  const found = search(show.value === CHANGED ? changedIn(tree) : tree, sought.value ?? "");
  const count = Object.keys(staged.value).length;
  return (
    <>
      <div class="head">
        <h1>{text.page.settings}</h1>
      </div>
      <div class="settings">
        <Sections nodes={found} chosen={section.value} onChoose={(key) => section.value = key} />
        <div>
          <div class="filters">
            <FilterField
              label={words.search}
              value={sought.value ?? ""}
              onFilter={(typed) => sought.value = typed}
            />
            <label class="check">
              <input
                type="checkbox"
                role="switch"
                checked={show.value === CHANGED}
                onChange={({ currentTarget }) => show.value = currentTarget.checked ? CHANGED : undefined}
              />
              {words.onlyChanged}
            </label>
          </div>
          <Issues issues={issues} />
          {found.length === 0 ? <p class="empty">{words.nothing}</p> : <Nodes nodes={found} depth={2} />}
          {count > 0 && (
            <div class="batch">
              <button type="button" class="main" onClick={save}>{words.save(count)}</button>
              <button type="button" onClick={discard}>{words.discard}</button>
            </div>
          )}
        </div>
      </div>
    </>
  );
}

/** Scrolls to a section, and opens it. */
function showSection(key: string): void {
  const section = document.getElementById(`section-${key}`);
  section?.setAttribute("open", "");
  section?.scrollIntoView({ block: "start" });
}

/** The groups, each a link to its place on the page. */
function Sections(
  { nodes, chosen, onChoose }: { nodes: Node[]; chosen: string | undefined; onChoose: (key: string) => void },
) {
  return (
    <nav class="sections" aria-label={text.settings.sections}>
      <ul>
        {nodes.filter((node) => node.kind === "group").map(({ key, name }) => (
          <li key={key}>
            <a
              href={`${hrefOf("settings")}?section=${encodeURIComponent(key)}`}
              aria-current={key === chosen ? "true" : undefined}
              onClick={(event) => {
                // The search stays.
                event.preventDefault();
                onChoose(key);
                showSection(key);
              }}
            >
              {name}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}

/** Groups with the settings that a person or corp has set. */
function changedIn(nodes: Node[]): Node[] {
  return nodes.flatMap((node): Node[] => {
    if (node.kind === "leaf") return node.source === "default" ? [] : [node];
    if (node.kind !== "group") return [];
    const children = changedIn(node.children);
    return children.length > 0 ? [{ ...node, children, collapsed: false }] : [];
  });
}

function Issues({ issues }: { issues: Settings["issues"] }) {
  const words = text.settings;
  if (issues.length === 0) return null;
  return (
    <section aria-label={words.issues}>
      <h2>{words.issues}</h2>
      <ul class="checks">
        {issues.map(({ id, severity, message }) => (
          <li key={id + message} class={severity === "error" ? "failed" : "skipped"}>
            <Icon name={severity === "error" ? "close" : "info"} />
            <div>
              <strong>{id}</strong>
              <p class="hint">{message}</p>
            </div>
          </li>
        ))}
      </ul>
    </section>
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
    <details class="group" id={`section-${group.key}`} open={!group.collapsed}>
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
  const isOpen = useSignal(false);
  const problems = refused.value[leaf.id];
  return (
    <div class={leaf.enabled ? "setting" : "setting off"} data-id={leaf.id}>
      <div>
        <div class="setting-name">
          <strong id={`${leaf.id}-name`}>{leaf.name}</strong>
          <button
            type="button"
            class="ghost"
            aria-expanded={isOpen.value}
            aria-controls={`${leaf.id}-why`}
            aria-label={words.explainOf(leaf.name)}
            title={words.explain}
            onClick={() => isOpen.value = !isOpen.value}
          >
            <Icon name="info" size={14} />
          </button>
        </div>
        {leaf.description && <p class="hint" id={`${leaf.id}-about`}>{leaf.description}</p>}
        {leaf.corp_locked && <Lock id={leaf.id} />}
        {leaf.source === "user" && (
          <p class="hint">
            {words.fromUser}{" "}
            <button
              type="button"
              class="small"
              aria-label={words.resetOf(leaf.name)}
              onClick={() => sendNow(leaf, null)}
            >
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
      <div id={`${leaf.id}-why`} class="explanation">{isOpen.value && <Layers id={leaf.id} />}</div>
    </div>
  );
}

/** A problem as a sentence of its own: an answer begins it after the setting's name. */
const sentenceOf = (problem: string) => problem[0].toUpperCase() + problem.slice(1);

/** Who locks a setting, and where that is written. */
function Lock({ id }: { id: string }) {
  const found = useSignal<Pick<SettingExplanation, "lock" | "lock_reason">>({});
  const words = text.settings;
  useEffect(() => {
    // Without its place the lock is a lock all the same.
    api.explainSetting(id).then((explained) => found.value = explained, () => {});
  }, [id, settings.value]);
  const { lock, lock_reason } = found.value;
  return (
    <>
      <p class="lock">
        <Icon name="lock" size={14} />
        <span>{lock === undefined ? words.locked : words.lockedAt(lock)}</span>
      </p>
      {lock_reason && <p class="hint">{lock_reason}</p>}
    </>
  );
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
function Layers({ id }: { id: string }) {
  const answer = useSignal<SettingExplanation | undefined>(undefined);
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
