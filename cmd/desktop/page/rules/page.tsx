import { useSignal } from "@preact/signals";
import { api, type RuleChangeView, type RuleList, type RuleView } from "../../api/routes.ts";
import { CommandLine } from "../../part/command.tsx";
import { useLoaded } from "../../part/load.ts";
import { ProfileChoice, useProfile } from "../../part/profile_choice.tsx";
import { text } from "../../text/en.ts";
import { Comparison } from "./compare/view.tsx";
import { RuleEditor } from "./editor.tsx";
import { RemarkList } from "./remarks.tsx";
import { RuleTable } from "./table.tsx";
import { Simulator } from "./simulator.tsx";
import { act } from "../../store/act.ts";
import { ChangeTable } from "../../part/change_table.tsx";

/** The rules of a profile, of corp and the defaults, in order of decision. */
export function RulesPage() {
  const profile = useProfile();
  const profiles = useLoaded(api.profiles);
  const { value, reload } = useLoaded(() => api.rules(profile.value), [profile.value]);
  /** `new`: a rule that is not there yet */
  const open = useSignal<RuleView | "new" | undefined>(undefined);
  const words = text.rules;
  const isBuiltin = profiles.value.value?.profiles.find(({ id }) => id === profile.value)?.source !== "user";
  return (
    <>
      <div class="head">
        <h1>{text.page.rules}</h1>
        <ProfileChoice chosen={profile} />
        {!isBuiltin && (
          <button type="button" class="main" onClick={() => open.value = "new"}>{words.add}</button>
        )}
      </div>
      {isBuiltin && profiles.value.value && (
        <>
          <p class="hint">{words.builtin}</p>
          <CommandLine command={words.copy(profile.value)} />
        </>
      )}
      {value.value && <Outdated vms={value.value.vms} onReloaded={reload} />}
      <RemarkList
        remarks={value.value?.lints.map(({ rule_id, severity, message }) => ({
          severity,
          message: `${rule_id}: ${message}`,
        }))}
      />
      {open.value && (
        <RuleEditor
          profile={profile.value}
          {...(open.value === "new" ? { title: words.editor.fresh, subject: {} } : shownOf(open.value))}
          lock={open.value === "new" ? undefined : lockOf(isBuiltin, open.value)}
          onSaved={reload}
          onClose={() => open.value = undefined}
        />
      )}
      <RuleTable
        rules={value.value?.rules ?? []}
        isBuiltin={isBuiltin}
        onOpen={(rule) => open.value = rule}
      />
      <Changes profile={profile.value} rules={value.value} onUndone={reload} />
      <Comparison key={profile.value} profile={profile.value} />
      <Simulator profile={profile.value} />
    </>
  );
}

/** Who else owns a rule. */
function lockOf(isBuiltin: boolean, { layer }: RuleView) {
  if (layer !== "profile") return layer;
  return isBuiltin ? "builtin" : undefined;
}

/** An active rule, for the editor; a name equal to the id was not written by a person. */
function shownOf({ id, name, ...rule }: RuleView) {
  const subject = { rule_id: id, rule: { ...rule, name: name === id ? undefined : name } };
  return { title: text.rules.editor.title(id), subject, isSaved: true };
}

/** Running VMs that decide by older rules, each with the way to these. */
function Outdated({ vms, onReloaded }: { vms: RuleList["vms"]; onReloaded: () => void }) {
  const words = text.rules;
  const reload = async (id: string, name: string) => {
    await act(() => api.reloadRules(id), words.reloaded(name));
    onReloaded();
  };
  return (
    <>
      {vms.filter(({ outdated }) => outdated).map(({ id, name }) => (
        <p key={id} class="warning">
          {words.outdated(name)}{" "}
          <button type="button" onClick={() => reload(id, name)}>{words.reload(name)}</button>
        </p>
      ))}
    </>
  );
}

interface Props {
  profile: string;
  /** the rules of now: read again after they change */
  rules: RuleList | undefined;
  onUndone: () => void;
}

/** The recorded changes of a profile's rules, each of which can be undone. */
function Changes({ profile, rules, onUndone }: Props) {
  const { value } = useLoaded(() => api.changes(profile), [profile, rules]);
  const words = text.rules.changes;
  const list = (value.value?.changes ?? []).filter((change) => change.kind === "rule");
  return (
    <section aria-label={words.title}>
      <h2>{words.title}</h2>
      <p class="hint">{words.about}</p>
      {list.length === 0 ? <p class="hint">{words.none}</p> : (
        <ChangeTable
          label={words.table}
          head={text.rules.rule}
          changes={list}
          idOf={({ rule_id }) => rule_id}
          draw={(rule) => <Rule rule={rule} />}
          onUndone={onUndone}
        />
      )}
    </section>
  );
}

function Rule({ rule }: { rule: RuleChangeView["after"] }) {
  if (!rule) return <>{text.rules.changes.absent}</>;
  const { action, match, enabled: _, ...rest } = rule;
  const more = Object.entries(rest).filter(([, value]) => value !== undefined);
  return (
    <>
      {action} <code>{match}</code>
      {more.length > 0 && <p class="hint">{JSON.stringify(Object.fromEntries(more))}</p>}
    </>
  );
}
